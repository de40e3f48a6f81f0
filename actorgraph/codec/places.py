"""Encryption at rest: AES-GCM with several keys, ciphers of a program's own, and compression.

Each encrypted value is bound to the place where it is stored, so that a row which is moved to
another thread, channel, version or task can't be decrypted there. `AesCipher` authenticates the
place as associated data. With any other cipher a hash of the place is encrypted in front of the
value, and compared when it is read.

A place is a tuple that begins with the kind of row, followed by the coordinates that the row keeps
for as long as it exists. Rows of a list are merged as it grows, so items are bound to the position
of the first of them, not to a row. A copy of a thread is another place: its rows are encrypted
again (`ThreadResealer`).
"""

from actorgraph.values.commits import LedgerRow

Place = tuple[str | int | bytes, ...]

NOWHERE: Place = ()
"""The place of values that are bound to none."""


def value_at(thread_id: str, namespace: str, channel: str, version: int) -> Place:
    """The place of a channel's value at a version."""
    return ("value", thread_id, namespace, channel, version)


def items_at(thread_id: str, namespace: str, channel: str, lineage: int, first: int) -> Place:
    """The place of items of a growing list, by the position of the first of them."""
    return ("items", thread_id, namespace, channel, lineage, first)


def writes_at(thread_id: str, namespace: str, key: tuple[bytes, bytes, str, int, int]) -> Place:
    """The place of a task's pending writes.

    Args:
        key: the row's base, task, path, index and generation.
    """
    return ("writes", thread_id, namespace, *key)


def writes_of(thread_id: str, namespace: str, row: LedgerRow) -> Place:
    """The place of a row of pending writes."""
    key = (row.base, row.task, row.path, row.index, row.generation)
    return writes_at(thread_id, namespace, key)


def input_of(thread_id: str, run: bytes) -> Place:
    """The place of a run's input that no checkpoint holds."""
    return ("input", thread_id, run)


def entry_at(kind: str, namespace: tuple[str, ...], key: str) -> Place:
    """The place of an entry of a cache or a store (`kind`)."""
    return (kind, *namespace, key)


def event_of(run: bytes, offset: int) -> Place:
    """The place of an event of an ActorSystem's run."""
    return ("event", run, offset)


def call_of(run: bytes) -> Place:
    """The place of the arguments that an ActorSystem's run was started with."""
    return ("run", run)
