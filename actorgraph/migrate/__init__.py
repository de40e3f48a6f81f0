"""Threads of LangGraph's checkpoint databases, moved into savers of ours."""

from actorgraph.migrate.moving import MigrationReport, ThreadReport, amigrate, migrate

__all__ = ["MigrationReport", "ThreadReport", "amigrate", "migrate"]
