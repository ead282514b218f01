"""Use-cases: one typed function per command, called by the command line and the console.

The composition root: only here are settings, database, sources and the rooms below connected. Decides nothing itself
and prints nothing.
"""
