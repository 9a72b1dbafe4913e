"""One module per group of commands; each `register(app)` adds its own."""
