"""What every HTTP process has: problem details, request ids, health and metrics routes, the server."""
