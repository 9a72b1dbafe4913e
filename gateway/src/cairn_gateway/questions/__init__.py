"""The question log: what was asked, how it was answered, and what nobody could answer."""
