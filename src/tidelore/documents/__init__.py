"""From stored rows to documents, and from documents to vectors. Requests nothing from a source."""
