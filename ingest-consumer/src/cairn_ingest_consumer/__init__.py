"""Kafka records to searchable, embedded chunks in Postgres."""
