"""What senders say, turned into events: pure functions from a request to `Event`s, and checks of signatures.

Nothing here does I/O. `routes/webhooks.py` reads the request, asks `signatures`, then a translator, then the
accepter that keeps the events.
"""
