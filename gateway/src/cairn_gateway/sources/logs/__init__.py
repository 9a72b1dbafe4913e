"""Log lines: read from any format, folded into templates with counts."""
