"""SQL on SQLite and PostgreSQL: the only package that accesses a database.

`database` opens it and brings its schema up to date, `mirror` writes what a sync fetched, `reading` queries the mirror,
`work` stores leases, runs, events and planned answers. Queries are plain text with named parameters. Transactions are
short and synchronous, so none can span network I/O (invariant 1).
"""
