"""Sources: the remote systems that can be mirrored, one folder each, with the types of their payloads.

A folder turns requests of the engine into HTTP requests and payloads into records. Nothing is imported here, so that an
offline command which imports this package never loads an HTTP client.
"""
