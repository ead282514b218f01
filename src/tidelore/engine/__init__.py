"""The sync algorithm: decides what to request, what counts as new, and when a cursor moves.

One engine reads every source. It depends only on the interfaces in `ports.py` and must not know HTTP, SQL or any source
by name.
"""
