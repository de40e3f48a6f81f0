"""Checkpoints in one SQLite file, or in memory, on asyncio and on trio."""

from actorgraph.savers.sqlite.saver import SqliteBackend

__all__ = ["SqliteBackend"]
