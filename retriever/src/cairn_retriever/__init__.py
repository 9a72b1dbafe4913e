"""A query to ranked runbook steps and events."""
