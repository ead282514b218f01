"""The algorithm: what to ask, what counts as new, when a cursor moves.

One engine reads every source. It is written against the ports in `ports.py` and knows no HTTP, no SQL
and no source by name.
"""
