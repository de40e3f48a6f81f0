"""SQLite files: opening, locks, WAL, private permissions, translation of errors."""
