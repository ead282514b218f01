"""SQL and nothing but SQL: the durable side of every port, on SQLite and on PostgreSQL.

Queries are plain text with named parameters, one module per table family. Transactions are short and
synchronous, so none can span network I/O (invariant 1).
"""
