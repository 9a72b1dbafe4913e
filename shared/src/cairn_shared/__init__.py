"""What two or more Cairn services use today; no business rule, no service."""
