"""PostgresStore: items in a PostgreSQL database."""
