"""Requests about what a thread keeps: copies of threads, and removals.

They come from outside runs, and are judged and stored by every saver like commits: each is all or
nothing. What they remove takes along the rows that no other checkpoint names.
"""

from typing import Any, Protocol

import msgspec

from actorgraph.values.ids import version_apart


class Resealer(Protocol):
    """Makes the payload of a row that encrypted values need in another thread or under a new key.

    A saver calls it for each row and stores what it returns; it knows neither keys nor values.
    Raises EncryptionError for a row that it can't read; then the request is refused.
    """

    def value(self, namespace: str, channel: str, version: int, payload: bytes) -> bytes:
        """That of a row of `blobs`."""
        ...

    def items(
        self, namespace: str, channel: str, lineage: int, start: int, payload: bytes
    ) -> bytes:
        """That of a row of a list."""
        ...

    def writes(self, namespace: str, row: Any) -> bytes:
        """That of a `LedgerRow`."""
        ...

    def input(self, run: bytes, payload: bytes) -> bytes:
        """That of the input of a run which is going on."""
        ...


class DeleteThread(msgspec.Struct, frozen=True, gc=False):
    """Remove everything of a thread and raise its epoch, so that no late commit brings it back."""

    thread_id: str
    size: int = 0


class CopyThread(msgspec.Struct, frozen=True, gc=False):
    """Copy every row of `source` to a thread that has none; a source without rows is a no-op.

    Attributes:
        resealer: makes the payloads of the copy; None copies those of the source.
    """

    thread_id: str
    source: str
    size: int = 0
    resealer: Resealer | None = None


class Reseal(msgspec.Struct, frozen=True, gc=False):
    """Store every payload of a thread anew, as the resealer makes it; runs may go on meanwhile."""

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
    """Remove what some runs stored, in every namespace, and stop those that are going on.

    Attributes:
        runs: run ids as text; a checkpoint names its run itself or as `run_id` in its metadata.
    """

    thread_id: str
    runs: frozenset[str]
    size: int = 0


class KeepLatest(msgspec.Struct, frozen=True, gc=False):
    """Keep each namespace's newest checkpoint, except of calls that belong to finished tasks."""

    thread_id: str
    size: int = 0


class KeepLast(msgspec.Struct, frozen=True, gc=False):
    """Keep the newest `count` checkpoints of each namespace and all their ancestors."""

    thread_id: str
    count: int
    size: int = 0


class Expire(msgspec.Struct, frozen=True, gc=False):
    """Remove what is older than a time, but for each namespace's newest `count` checkpoints.

    Attributes:
        before: microseconds since 1970-01-01 UTC; what was made then or later stays.
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
    """Let a checkpoint hold the values of DeltaChannels, so that it needs no ancestor for them.

    What it says stays the same. One that is gone, or holds them already, is left alone.

    Attributes:
        values: channel -> encoded value; stored at a version of this checkpoint's own, as a branch
            may have another value at the channel's version.
    """

    thread_id: str
    namespace: str
    id: bytes
    values: dict[str, bytes]
    size: int = 0

    @property
    def version(self) -> int:
        """Where its values stand."""
        return version_apart(self.id)


class Vacuum(msgspec.Struct, frozen=True, gc=False):
    """Give back the space of what was removed, so that nothing of it can be read any more.

    It concerns all threads, and is carried out after its batch is durable. What is left of
    deleted threads, their epochs, goes too.
    """

    thread_id: str = ""
    size: int = 0


class ListThreads(msgspec.Struct, frozen=True):
    """Read the ids of the threads that have checkpoints, in order.

    Attributes:
        runs: only threads in which one of these runs stored something, or is going on.
        older: only threads with a checkpoint made before this, in microseconds since 1970.
        inputs: also threads without checkpoints, if a run that is going on has stored its input.
    """

    runs: frozenset[str] | None = None
    older: int | None = None
    inputs: bool = False


class CountCheckpoints(msgspec.Struct, frozen=True, gc=False):
    """Read how many checkpoints a thread has, in one namespace or in all of them."""

    thread_id: str
    namespace: str | None = None
