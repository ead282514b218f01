"""Build documents from stored rows, and vectors from documents. Makes no requests to sources."""
