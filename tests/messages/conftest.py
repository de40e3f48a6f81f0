"""Every saver, by the fixtures `store` and `saver`."""

from tests.stores import saver, store

__all__ = ["saver", "store"]
