"""Data of a dispatcher: hints that runs wait for a worker, and news about runs.

A hint may come twice, late, in any order, or never: it only says where to look. The rows of the
saver decide.
"""

from typing import Any, Literal

import msgspec

from actorgraph.values.systems import RunRow

Role = Literal["accept", "work", "both"]
"""Role of a system: to accept runs for workers, to run what others accept, or both."""

ID_BYTES = 16
"""Bytes of a run's id."""

RESCUE = 100
"""The priority of the hint of a run whose system has died or left it; above those of runs."""


class Hint(msgspec.Struct, frozen=True):
    """Says that a run may be waiting for a worker.

    Attributes:
        run: the run's id, 16 bytes.
        queue: the queue of the workers that may run it, see `queue_of`.
        priority: higher ones are delivered first, as far as the dispatcher can.
        due: microseconds since 1970-01-01 UTC before which it should not be delivered.
        receipt: what the dispatcher needs to settle it; None before it is delivered.
    """

    run: bytes
    queue: str
    priority: int = 0
    due: int = 0
    receipt: Any = None


class News(msgspec.Struct, frozen=True):
    """Changes of runs, for processes that read or run them.

    Attributes:
        stored: runs with new stored events, and runs that have ended.
        cancelled: runs whose cancellation was requested.
    """

    stored: tuple[bytes, ...] = ()
    cancelled: tuple[bytes, ...] = ()


def queue_of(graph: str, build: str, *, rescue: bool = False) -> str:
    """Name the queue of the runs of a graph and a build.

    Args:
        build: "" for runs that every build may run.
        rescue: the queue of runs that have lost their system; workers keep slots free for it.
    """
    named = f"{graph}@{build}" if build else graph
    return f"{named}!" if rescue else named


def is_rescue(row: RunRow) -> bool:
    """Whether an open run without a living system has had one: it has died, or left the run."""
    return row.owner is not None or row.attempts > 0


def hint_of(row: RunRow) -> Hint:
    """Make the hint of an open run that no living system has."""
    rescue = is_rescue(row)
    queue = queue_of(row.graph, row.build, rescue=rescue)
    return Hint(row.run, queue, RESCUE if rescue else row.priority, row.due)
