"""Fixtures of the tests of commands."""

from tests.support.every_saver import saver, store

__all__ = ["saver", "store"]
