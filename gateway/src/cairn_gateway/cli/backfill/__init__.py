"""Loading history: what a provider's API tells, in the shape of its webhooks, sent to the gateway in batches."""
