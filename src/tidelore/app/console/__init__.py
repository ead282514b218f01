"""Composition of the console: the service on a thread, what a person may change, search in place; decides nothing."""
