"""Connections to PostgreSQL: open and lend them, timeouts, retries, translated errors."""
