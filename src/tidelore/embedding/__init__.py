"""Embedding: text becomes a vector, in this process or on a server that the user named.

Nothing is imported here, so that a command which only asks whether vectors can be had loads neither a model nor
an HTTP client.
"""
