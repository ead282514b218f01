"""Sources: everything that speaks to a remote system, and the wire shapes it answers with.

`http.py` is how every source asks; `transport.py` is the only module that knows the HTTP library. Nothing is
imported here, so that an offline command which touches this package never loads an HTTP client.
"""
