"""The database port, its SQLite and PostgreSQL drivers, and the schema.

Responsible for connections, transactions, error names and migrations. Contains no query about mirrored rows.
"""
