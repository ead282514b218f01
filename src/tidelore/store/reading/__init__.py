"""Queries the mirror: lists, conversations, documents, full text, vectors, counts, file history.

Only the three modules about vectors write: embeddings are derived from documents.
"""
