"""Rows that no request reaches any more, because a key of theirs or of their thread is damaged.

A vacuum removes them: `delete_thread` finds rows by the thread's id and key. Each table that has
lost some is named in a warning, `orphans.removed`, so that a backup can be asked for them.
"""

from collections.abc import Iterable
from typing import Any

from actorgraph.storage.logged_problems import warn
from actorgraph.values.ids import as_text

KEYS_MAX = 20
"""Keys that a warning names; it has the number of all rows."""
_ID_BYTES = 16


def report_orphans(table: str, orphans: Iterable[tuple[Any, int]]) -> None:
    """Warn that rows were removed from a table.

    Args:
        orphans: key of the missing thread or run -> number of rows; nothing is said of none.
    """
    counts = list(orphans)
    if counts:
        keys = [_shown(key) for key, _ in counts[:KEYS_MAX]]
        warn("orphans.removed", table=table, keys=keys, rows=sum(rows for _, rows in counts))


def _shown(key: object) -> str:
    """Text of a thread's key, a run's id, or of the value in its place."""
    if isinstance(key, bytes) and len(key) == _ID_BYTES:
        return as_text(key)
    return repr(key)[:80]
