"""The one HTTP client, for sources and for embedding servers.

Nothing is imported here, so that an offline command which needs only `redaction` or `limits` loads no HTTP library.
`transport.py` and `tls.py` are the only modules that import one. This room must not know a source, a record or the
engine: it turns requests into responses, and failures into errors of the tree.
"""
