"""Savers of every kind, by the fixtures `store` and `saver`."""

from tests.support.every_saver import saver, store

__all__ = ["saver", "store"]
