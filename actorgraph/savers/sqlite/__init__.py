"""Checkpoints in one SQLite database, a file or in memory, on asyncio and trio."""

from actorgraph.savers.sqlite.saver import SqliteBackend

__all__ = ["SqliteBackend"]
