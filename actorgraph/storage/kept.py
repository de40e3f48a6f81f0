"""Connections that the `__del__` of their owner closes.

Of a cycle of garbage Python ends the objects in any order, so a connection may come before its
owner, and it warns when it is ended while open (psycopg's do, sqlite3's since Python 3.13). A
connection that is kept here isn't garbage: it lives until its owner has closed and released it.

A forked child keeps what it inherits: it never releases it, and so never ends it either.
"""

_KEPT: set[object] = set()


def keep(connection: object) -> None:
    """Hold a connection, or what holds connections, until it is released."""
    _KEPT.add(connection)


def release(connection: object) -> None:
    """Hold it no longer; nothing happens to one that isn't held."""
    _KEPT.discard(connection)
