"""The HTTP client shared by sources and embedding servers.

Nothing is imported here, so that an offline command which needs only `limits` loads no HTTP library.
`transport.py` and `tls.py` are the only modules that import one. This package turns requests into responses and
failures into errors of `core.errors`. It must not depend on a source, a record type or the engine.
"""
