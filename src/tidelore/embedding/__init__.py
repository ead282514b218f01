"""Embedding: turns text into vectors, in this process or on a server that the user configured.

Nothing is imported here, so that a command which only asks whether vectors are available loads neither a model nor an
HTTP client.
"""
