"""Store checkpoints in PostgreSQL, through synchronous psycopg in worker threads."""
