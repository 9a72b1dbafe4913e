"""Runbook repositories as both the gateway (webhooks, declarations) and the consumer (sync) know them."""
