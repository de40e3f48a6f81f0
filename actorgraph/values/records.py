"""Restored checkpoints: read back and decoded, for a run to start from or for a snapshot."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.values.run import NO_DELTAS, TaskPath


class StoredWrite(msgspec.Struct, frozen=True):
    """One row of the ledger, decoded.

    Attributes:
        index: 0 or more for a task's own writes, negative for control (see `CONTROL_INDEX`).
        generation: of control rows of one kind, the highest counts.
        writes: as the task made them.
    """

    task: str
    path: TaskPath
    index: int
    generation: int
    writes: tuple[tuple[str, Any], ...]


class OpenClaim(msgspec.Struct, frozen=True):
    """The claim of a run that never left, decoded: its process died.

    Attributes:
        mode: the durability that it ran with.
        input: its input, if no checkpoint holds it.
        has_input: whether `input` is set.
    """

    run: bytes
    mode: str
    input: Any
    has_input: bool


class Restored(msgspec.Struct, frozen=True):
    """One checkpoint with its ledger, decoded.

    Attributes:
        id: b"" where only the input of a claim is stored and no checkpoint.
        sequence: its number in the order in which the thread's checkpoints were stored.
        created: microseconds since 1970-01-01 UTC.
        graph: the id of the graph that wrote it.
        values: the cells, as their channels hold them; absent where empty.
        versions: channel -> version.
        seen: node -> channel -> version that the node has run with.
        next: the nodes that run next, as stored for listings.
        version_floor: the highest version that any checkpoint of the thread uses, so that
            new versions never collide with those of another branch.
        head: the newest checkpoint of its thread and namespace, maybe itself.
        claim: that of an unfinished run on top of it.
        deltas: as in `NewCheckpoint`; their values are in `values`.
    """

    id: bytes
    parent: bytes | None
    sequence: int
    namespace: str
    step: int
    source: str
    created: int
    run: bytes | None
    graph: str
    values: dict[str, Any]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: tuple[str, ...] | None
    next: tuple[str, ...]
    metadata: dict[str, Any]
    ledger: tuple[StoredWrite, ...] = ()
    version_floor: int = 0
    head: bytes = b""
    claim: OpenClaim | None = None
    deltas: Mapping[str, tuple[int, int]] = NO_DELTAS
