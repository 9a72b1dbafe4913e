"""A question to a verified, cited answer."""
