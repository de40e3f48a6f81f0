"""Shared by savers, stores and caches: connections to databases, timeouts, translated errors."""
