"""The outside world behind the ports: MongoDB, Kafka, Redis, retriever, answerer."""
