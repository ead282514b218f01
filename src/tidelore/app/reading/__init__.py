"""Use-cases that read conversations from the copy: threads, context, changes, and who "me" is."""
