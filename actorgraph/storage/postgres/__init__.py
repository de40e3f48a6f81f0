"""Connections to PostgreSQL: opening, lending, time limits, translation of errors."""
