"""Workers: several processes that share the work of one PostgreSQL database."""
