"""Jira webhooks (developer.atlassian.com, "Webhooks"), of Cloud and of Data Center."""

from cairn_gateway.sources.jira.tickets import translate

__all__ = ["translate"]
