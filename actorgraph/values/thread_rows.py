"""The rows of an index of threads, which a saver keeps beside its checkpoints: docs/decisions/0120.

A row has the registration of a thread (its metadata, the time it was made) and facts about its
newest state, by which searches find it. A trigger of the database marks each
thread that any program changes, in the transaction of the change. Marked threads are read again
before a search, so that no search depends on the program that wrote last.
"""

from typing import Literal

import msgspec

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
"""busy: it has an open run, and not one that only waits for its time. interrupted: it has tasks
left. error: one of them has failed."""

ThreadOrder = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]


class ThreadFact(msgspec.Struct, frozen=True, order=True):
    """A key of a thread's metadata or values, and its value as canonical text.

    Attributes:
        name: "m." or "v." and the key, for metadata and values.
        value: see `savers.thread_facts.fact_text`.
    """

    name: str
    value: str


class ThreadRow(msgspec.Struct, frozen=True):
    """A thread in the index. Times are microseconds since 1970-01-01 UTC.

    Attributes:
        graph: the name of the graph that wrote its newest checkpoint; "" if unknown.
        status: a `ThreadStatus`.
        steps: the step of its newest checkpoint; -1 without one.
        metadata: JSON object.
        registered: False if it was found by its checkpoints or runs only.
        temporary: whether it was made for one run, and is removed with it.
        phase: a `ThreadPhase` as of its last change: nothing is stored when a lease ends. Stored
            as a fact; "" of a row of an earlier version.
    """

    thread_id: str
    graph: str
    status: str
    created: int
    updated: int
    state_updated: int
    steps: int
    metadata: str
    registered: bool = False
    temporary: bool = False
    phase: str = ""


class TrackThreads(msgspec.Struct, frozen=True):
    """Mark each thread that is changed from now on, and once all that the database has."""

    thread_id: str = ""
    size: int = 0


class PutThread(msgspec.Struct, frozen=True):
    """Register a thread, unless it is registered; the outcome's `sequence` is 1 if it was not.

    Attributes:
        created: microseconds since 1970-01-01 UTC; stored as the time of its update too.
        metadata: JSON object.
    """

    thread_id: str
    created: int
    metadata: str
    temporary: bool = False
    size: int = 0


class PatchThread(msgspec.Struct, frozen=True):
    """Merge metadata into a registered thread's; the outcome's `sequence` is 0 if it is missing.

    Attributes:
        updated: microseconds since 1970-01-01 UTC.
        metadata: JSON object.
    """

    thread_id: str
    updated: int
    metadata: str
    size: int = 0


class DropThread(msgspec.Struct, frozen=True):
    """Remove a thread from the index; its checkpoints stay."""

    thread_id: str
    size: int = 0


class ThreadMark(msgspec.Struct, frozen=True):
    """A thread that was changed. Each change gives it another number."""

    thread_id: str
    number: int


class IndexedThread(msgspec.Struct, frozen=True):
    """The state of a marked thread, as it was read.

    Attributes:
        mark: as it was before the thread was read.
        row: None if it has neither checkpoints nor runs. Of a registered thread only graph,
            status, steps and the state's time are taken.
        values: facts about its values.
    """

    mark: ThreadMark
    row: ThreadRow | None
    values: tuple[ThreadFact, ...] = ()


class IndexThreads(msgspec.Struct, frozen=True):
    """Store the states of marked threads; one that was marked again meanwhile stays as it is."""

    threads: tuple[IndexedThread, ...]
    thread_id: str = ""
    size: int = 0


class ListMarks(msgspec.Struct, frozen=True):
    """Read the marks of changed threads: a list of `ThreadMark`, or None before `TrackThreads`.

    Attributes:
        limit: the most marks; None for all.
        idle: only threads without an open run.
    """

    limit: int | None = None
    idle: bool = False


class FindThreads(msgspec.Struct, frozen=True):
    """Read threads of the index: a list of `ThreadRow`, or of one number with `counts`.

    Attributes:
        ids: only these; None for all.
        prefix: only those whose id begins with it.
        facts: only those that have all of these.
        status: only those with this status; "" for all.
        phase: only those with this stored phase; "" for all.
        before: only those whose newest checkpoint was made before this; 0 for all.
        graph: only those of this graph; "" for all.
        registered: only registered ones.
        temporary: only temporary ones.
        order: the field to sort by; threads with equal ones are sorted by their ids.
        down: from the highest to the lowest.
        limit: the most rows; None for all.
        counts: answer with the number of threads; `limit` and `offset` are not used.
    """

    ids: tuple[str, ...] | None = None
    prefix: str = ""
    facts: tuple[ThreadFact, ...] = ()
    status: str = ""
    phase: str = ""
    before: int = 0
    graph: str = ""
    registered: bool = False
    temporary: bool = False
    order: ThreadOrder = "created_at"
    down: bool = True
    limit: int | None = None
    offset: int = 0
    counts: bool = False


ThreadRequest = TrackThreads | PutThread | PatchThread | DropThread | IndexThreads
THREAD_REQUESTS = (TrackThreads, PutThread, PatchThread, DropThread, IndexThreads)
ThreadQuery = ListMarks | FindThreads
THREAD_QUERIES = (ListMarks, FindThreads)
