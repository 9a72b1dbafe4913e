"""Dead letters: indexed from their topics, shown, replayed, discarded. `indexer.py` is where they come in."""
