"""Runbooks: their model and the Markdown loader (`markdown`), shared by the gateway and the repository sync."""
