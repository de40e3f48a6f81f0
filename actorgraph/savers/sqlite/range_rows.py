"""Rows of growing lists, inside a batch's transaction."""

import sqlite3

from actorgraph.codec.records import with_checksums
from actorgraph.savers.sqlite import schema as sql
from actorgraph.values.commits import RangeRow


def write_range(
    connection: sqlite3.Connection, key: int | None, namespace: str, part: RangeRow
) -> None:
    """Add items to a list: as a row of their own, or to the row that they follow.

    Args:
        key: of the thread.
    Raises:
        sqlite3.IntegrityError: that row does not end where they begin.
    """
    where = (key, namespace, part.channel, part.lineage, part.start)
    payload = with_checksums(part.payload)
    if part.before == 0:
        connection.execute(sql.INSERT_RANGE, (*where, part.count, payload))
        return
    # The statement compares the row's item count with `before`. Anything but one changed row means
    # that the list is not what the run believes, and appending would shift its items.
    done = connection.execute(sql.EXTEND_RANGE, (part.count, payload, *where, part.before))
    if done.rowcount != 1:
        msg = f"the list {part.channel!r} has no row at {part.start} with {part.before} items"
        raise sqlite3.IntegrityError(msg)


def merge(connection: sqlite3.Connection, where: tuple[object, ...]) -> None:
    """Join rows of a list.

    Args:
        where: the values of `sql.SELECT_MERGED`.
    """
    # Payloads are sequences of frames, so joined bytes are the joined list; nothing is decoded.
    rows = connection.execute(sql.SELECT_MERGED, where).fetchall()
    connection.execute(sql.DELETE_MERGED, where)
    merged = (*where[:5], sum(count for count, _ in rows), b"".join(p for _, p in rows))
    connection.execute(sql.INSERT_RANGE, merged)
