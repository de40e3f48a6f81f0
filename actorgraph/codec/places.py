"""Where stored values stand: what an encrypted one is bound to, so that no other place takes it.

A place is a tuple whose first part says the kind of row. It has the coordinates that a row keeps
for as long as it exists: rows of a list are put together, so an item list is bound to the position
of its first item, not to its row. A copy of a thread is another place: see `codec.resealing`.
"""

from actorgraph.values.commits import LedgerRow

Place = tuple[str | int | bytes, ...]

NOWHERE: Place = ()
"""Of values that stand nowhere in particular."""


def value_at(thread_id: str, namespace: str, channel: str, version: int) -> Place:
    """The value of a channel at a version."""
    return ("value", thread_id, namespace, channel, version)


def items_at(thread_id: str, namespace: str, channel: str, lineage: int, first: int) -> Place:
    """Items of a growing list, by the position of the first of them."""
    return ("items", thread_id, namespace, channel, lineage, first)


def writes_at(thread_id: str, namespace: str, key: tuple[bytes, bytes, str, int, int]) -> Place:
    """Writes of a task: `key` is the row's base, task, path, index and generation."""
    return ("writes", thread_id, namespace, *key)


def writes_of(thread_id: str, namespace: str, row: LedgerRow) -> Place:
    """The place of a ledger row."""
    key = (row.base, row.task, row.path, row.index, row.generation)
    return writes_at(thread_id, namespace, key)


def input_of(thread_id: str, run: bytes) -> Place:
    """The input of a run that no checkpoint holds."""
    return ("input", thread_id, run)


def entry_at(kind: str, namespace: tuple[str, ...], key: str) -> Place:
    """An entry of a cache or a store (`kind`)."""
    return (kind, *namespace, key)


def event_of(run: bytes, offset: int) -> Place:
    """An event of a run of an ActorSystem."""
    return ("event", run, offset)


def call_of(run: bytes) -> Place:
    """What a run of an ActorSystem was started with."""
    return ("run", run)
