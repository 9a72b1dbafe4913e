"""From what something outside said to a document's event: pure, and the same whoever brings it.

The gateway makes documents of webhooks; the consumer makes them of the commits that a webhook left out.
"""
