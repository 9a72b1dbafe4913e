"""OpenAI's shapes and ours, translated into one another: values only. `routes/openai.py` speaks HTTP.

The shapes are those of https://platform.openai.com/docs/api-reference; tests hold them against the official client.
"""
