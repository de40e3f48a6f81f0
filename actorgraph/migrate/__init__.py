"""Move the threads of LangGraph's checkpoint databases into this library's savers."""

from actorgraph.migrate.moving import MigrationReport, ThreadReport, amigrate, migrate

__all__ = ["MigrationReport", "ThreadReport", "amigrate", "migrate"]
