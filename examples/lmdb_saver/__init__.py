"""A saver over LMDB, a database that the library doesn't know; see `saver.py`."""

from lmdb_saver.saver import LmdbSaver

__all__ = ["LmdbSaver"]
