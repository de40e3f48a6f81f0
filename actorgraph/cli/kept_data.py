"""Results of the commands that keep, move and serve data; `--json` prints them."""

import msgspec


class PrunedThread(msgspec.Struct, frozen=True):
    """A thread of which checkpoints were removed, or would be."""

    thread_id: str
    removed: int
    kept: int


class PruneResult(msgspec.Struct, frozen=True):
    """The result of `actorgraph prune`.

    Attributes:
        dry_run: whether nothing was removed.
        removed: checkpoints of all threads.
        freed: rows that no checkpoint used, of --vacuum.
        left: why threads stay as they are; each text names its thread.
    """

    dry_run: bool
    removed: int
    threads: tuple[PrunedThread, ...]
    freed: int = 0
    left: tuple[str, ...] = ()


class BackupResult(msgspec.Struct, frozen=True):
    """The result of `actorgraph backup`."""

    path: str
    bytes: int


class TransferResult(msgspec.Struct, frozen=True):
    """The result of `actorgraph export` and `actorgraph import`.

    Attributes:
        left: why threads were not exported; each text names its thread.
    """

    path: str
    threads: int
    checkpoints: int
    left: tuple[str, ...] = ()


class ListedSystem(msgspec.Struct, frozen=True):
    """A system of `actorgraph top`.

    Attributes:
        lease_s: seconds until its lease ends; negative since it ended; None if it gave it up.
        runs: its open runs.
    """

    owner: str
    lease_s: float | None
    runs: int


class Figures(msgspec.Struct, frozen=True):
    """The result of `actorgraph top`; None: the source doesn't know it.

    Attributes:
        running: runs that have their thread.
        queued: accepted runs that wait; without those whose time is to come.
        steps_per_s: supersteps of all runs.
        lag_s: how long the oldest due run has been waiting for a system.
        graphs: graph -> open runs.
    """

    place: str
    running: int
    queued: int
    steps_per_s: float | None = None
    lag_s: float | None = None
    graphs: dict[str, int] = {}
    systems: tuple[ListedSystem, ...] = ()
    ended: dict[str, int] = {}
