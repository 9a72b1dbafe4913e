"""The four stores as programs of pip packages, and as containers where Docker is there."""
