"""The answerer's ports over HTTP, PostgreSQL and Redis."""
