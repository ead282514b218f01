"""Retrieval: from what somebody typed to the threads that answer it. Imports the store and embedding only."""
