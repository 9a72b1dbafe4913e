"""Cairn's public edge: runbooks, webhooks, questions, and the command line."""
