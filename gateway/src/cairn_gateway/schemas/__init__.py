"""Bodies of the public API, apart from those of `/ask` and `/search` (`cairn_shared.api`)."""
