"""Tidelore: a complete, queryable local copy of the conversations its user follows."""

__version__ = "0.1.0"
