"""Use-cases: one typed function per command, called by the command line and the console.

The composition root: only this package connects settings, database, sources and the other packages. It must contain no
domain logic and print nothing.
"""
