"""Text to normalised vectors, batched across requests."""
