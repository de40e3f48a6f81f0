"""SqliteStore: items in an SQLite file."""
