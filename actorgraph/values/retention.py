"""Requests to a saver about whole threads: copies, removals, retention, new encryption keys.

They come from outside runs, and every saver judges and stores them like commits: each is all or
nothing. A removed checkpoint's rows are removed too, unless another checkpoint names them.
"""

from typing import Any, Protocol

import msgspec

from actorgraph.values.ids import version_apart


class Resealer(Protocol):
    """Encrypts the payloads of rows anew, for another thread or under a new key.

    A saver calls a method for each row and stores the payload that it returns; it never sees keys
    or values. A method raises EncryptionError for a row that it can't decrypt; then the request is
    refused.
    """

    def value(self, namespace: str, channel: str, version: int, payload: bytes) -> bytes:
        """Make the new payload of a row of `blobs`."""
        ...

    def items(
        self, namespace: str, channel: str, lineage: int, start: int, payload: bytes
    ) -> bytes:
        """Make the new payload of a row of a growing list."""
        ...

    def writes(self, namespace: str, row: Any) -> bytes:
        """Make the new payload of a `LedgerRow`."""
        ...

    def input(self, run: bytes, payload: bytes) -> bytes:
        """Make the new payload of the input of an open run."""
        ...


class DeleteThread(msgspec.Struct, frozen=True, gc=False):
    """Remove everything of a thread and raise its epoch, so that no late commit brings it back."""

    thread_id: str
    size: int = 0


class CopyThread(msgspec.Struct, frozen=True, gc=False):
    """Copy every row of `source` to a thread without rows; nothing if the source has none.

    Attributes:
        resealer: makes the payloads of the copy; None copies those of the source.
    """

    thread_id: str
    source: str
    size: int = 0
    resealer: Resealer | None = None


class Reseal(msgspec.Struct, frozen=True, gc=False):
    """Replace every payload of a thread by the resealer's; runs may go on meanwhile."""

    thread_id: str
    resealer: Resealer
    size: int = 0


class DeleteCheckpoints(msgspec.Struct, frozen=True):
    """Remove checkpoints of one namespace by their ids; those that it doesn't have are ignored."""

    thread_id: str
    namespace: str
    ids: frozenset[bytes]
    size: int = 0


class DeleteRuns(msgspec.Struct, frozen=True):
    """Remove the rows of some runs, in every namespace, and stop those that are open.

    Attributes:
        runs: run ids as text; a checkpoint names its run in its column or its `run_id` metadata.
    """

    thread_id: str
    runs: frozenset[str]
    size: int = 0


class KeepLatest(msgspec.Struct, frozen=True, gc=False):
    """Keep each namespace's newest checkpoint; none of subgraphs whose task has finished."""

    thread_id: str
    size: int = 0


class KeepLast(msgspec.Struct, frozen=True, gc=False):
    """Keep the newest `count` checkpoints of each namespace, and what their values are made of."""

    thread_id: str
    count: int
    size: int = 0


class Expire(msgspec.Struct, frozen=True, gc=False):
    """Remove rows older than a time, but for each namespace's newest `count` checkpoints.

    Attributes:
        before: microseconds since 1970-01-01 UTC; rows made then or later stay.
        count: 0 keeps nothing of a thread all of whose checkpoints are older; else it counts as 1.
    """

    thread_id: str
    before: int
    count: int
    size: int = 0


class Sweep(msgspec.Struct, frozen=True, gc=False):
    """Remove values, list rows and ledgers that no checkpoint names; not while a run goes on."""

    thread_id: str
    size: int = 0


Removal = DeleteCheckpoints | DeleteRuns | KeepLatest | KeepLast | Expire | Sweep


class HoldWhole(msgspec.Struct, frozen=True):
    """Store the whole values of DeltaChannels with a checkpoint, so that it needs no ancestor.

    Its state stays the same. A checkpoint that is gone, or has them already, is left alone.

    Attributes:
        values: channel -> encoded value; stored at a version of this checkpoint's own, because a
            branch may have another value at the channel's version.
    """

    thread_id: str
    namespace: str
    id: bytes
    values: dict[str, bytes]
    size: int = 0

    @property
    def version(self) -> int:
        """The version at which its values are stored."""
        return version_apart(self.id)


class Vacuum(msgspec.Struct, frozen=True, gc=False):
    """Free the space of removed rows, so that none of them can be read from the files any more.

    It applies to all threads, and is carried out after its batch is durable. The epochs of deleted
    threads are removed too.
    """

    thread_id: str = ""
    size: int = 0


class ListThreads(msgspec.Struct, frozen=True):
    """Read the ids of the threads that have checkpoints, in order.

    Attributes:
        runs: only threads in which one of these runs stored a row or is open.
        older: only threads with a checkpoint made before this, in microseconds since 1970.
        inputs: also threads without checkpoints, if an open run has stored its input.
    """

    runs: frozenset[str] | None = None
    older: int | None = None
    inputs: bool = False


class CountCheckpoints(msgspec.Struct, frozen=True, gc=False):
    """Read how many checkpoints a thread has, in one namespace or in all of them."""

    thread_id: str
    namespace: str | None = None
