"""Where ingest meets PostgreSQL, Kafka and the embedder."""
