"""Savers of every kind, by the fixtures `store` and `saver`; a schema of PostgreSQL by `lent`."""

from tests.support.every_saver import saver, store
from tests.support.postgres_server import lent

__all__ = ["lent", "saver", "store"]
