"""The whole of Cairn on one machine, from pip packages."""
