"""The savers that programs open, with all their methods, and wrappers around any saver."""
