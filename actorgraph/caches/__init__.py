"""Caches of nodes' results, by namespace and key of the input."""

from actorgraph.caches.base import BaseCache, FullKey, Namespace
from actorgraph.caches.memory import InMemoryCache
from actorgraph.caches.sqlite import SqliteCache

__all__ = ["BaseCache", "FullKey", "InMemoryCache", "Namespace", "SqliteCache"]
