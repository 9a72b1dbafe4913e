"""Bodies of the HTTP calls between services: the one place where both ends agree."""
