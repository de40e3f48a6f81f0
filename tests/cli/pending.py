"""Homes of names that are not built yet; the list must end empty."""

PENDING: frozenset[str] = frozenset()
