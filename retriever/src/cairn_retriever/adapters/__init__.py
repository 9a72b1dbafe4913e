"""What touches PostgreSQL and the embedder."""
