"""Kafka: a producer whose deliveries are awaited, and a consumer engine that never commits ahead of its writes."""
