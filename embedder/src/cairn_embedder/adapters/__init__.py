"""The embedder's ports, implemented: sentence-transformers and Redis."""
