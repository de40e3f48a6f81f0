"""The savers of tests/stores.py."""

from tests.stores import saver, store

__all__ = ["saver", "store"]
