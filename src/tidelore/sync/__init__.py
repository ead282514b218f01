"""Sync commands: choose which lists, children and accounts to read, verify or compare, and report the result."""
