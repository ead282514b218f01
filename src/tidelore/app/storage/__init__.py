"""Use-cases about the database as a whole."""
