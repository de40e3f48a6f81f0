"""Count the checkpoints that a prune would remove, by the decision that savers make."""

import re
from collections.abc import Sequence
from typing import Any

from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.kept_data import PrunedThread
from actorgraph.internals import (
    DAMAGED,
    DURATION_MAX_S,
    UNREADABLE,
    Host,
    ListCheckpoints,
    RetentionPoint,
    StoredCheckpoint,
    plan_removal,
)

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


def seconds_of(text: str) -> float:
    """Parse a duration: 90s, 15m, 12h, 30d, 4w.

    Raises:
        UsageError: it isn't one.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    seconds = 0.0 if found is None else float(found[1]) * _UNITS[found[2]]
    if found is None or seconds > DURATION_MAX_S:
        raise UsageError(
            f"{text!r} is not a duration up to a hundred years", do="write 30d, 12h, 15m or 90s"
        )
    return seconds


async def planned(
    host: Host, removals: Sequence[Any]
) -> tuple[tuple[PrunedThread, ...], tuple[str, ...]]:
    """Count the checkpoints that each removal of one thread would remove; nothing is changed.

    Returns: the threads that would change, and why others can't be read.
    """
    found: list[PrunedThread] = []
    left: list[str] = []
    for removal in removals:
        query = ListCheckpoints(removal.thread_id, bare=True, oldest_first=True)
        try:
            rows: list[StoredCheckpoint] = await host.reader.ask(query)
            gone = len(plan_removal(removal, [_point(row) for row in rows], None).gone)
        except (*UNREADABLE, *DAMAGED) as error:
            left.append(str(error))
            continue
        if gone:
            found.append(PrunedThread(removal.thread_id, gone, len(rows) - gone))
    return tuple(found), tuple(left)


def _point(stored: StoredCheckpoint) -> RetentionPoint:
    row = stored.row
    return RetentionPoint(
        stored.namespace, stored.sequence, row.id, row.parent, row.run, row.metadata, row.record
    )
