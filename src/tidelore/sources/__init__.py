"""Sources: the remote systems that can be mirrored, one folder each, and their wire shapes.

A folder turns requests of the engine into HTTP requests and payloads into records. Nothing is imported here, so that an
offline command which touches this package never loads an HTTP client.
"""
