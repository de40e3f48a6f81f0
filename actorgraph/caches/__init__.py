"""Caches: where results of nodes are kept, to be taken again for the same input."""

from actorgraph.caches.base import BaseCache, FullKey, Namespace
from actorgraph.caches.memory import InMemoryCache
from actorgraph.caches.sqlite import SqliteCache

__all__ = ["BaseCache", "FullKey", "InMemoryCache", "Namespace", "SqliteCache"]
