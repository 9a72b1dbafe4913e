"""The `cairn` command: everything an engineer or an operator does, from a terminal or a script.

It speaks HTTP to the gateway and imports nothing of the server.
"""
