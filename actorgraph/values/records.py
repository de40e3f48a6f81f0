"""What a checkpoint says once it has been read back and decoded."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.values.run import NO_DELTAS, Path


class StoredWrite(msgspec.Struct, frozen=True):
    """One row of the ledger, decoded; `writes` as the task made them."""

    task: str
    path: Path
    index: int
    generation: int
    writes: tuple[tuple[str, Any], ...]


class OpenClaim(msgspec.Struct, frozen=True):
    """A run that claimed the thread and never left: its process died.

    Attributes:
        mode: the durability that it ran with.
        input: what it was given, when no checkpoint holds it.
    """

    run: bytes
    mode: str
    input: Any
    has_input: bool


class Restored(msgspec.Struct, frozen=True):
    """One checkpoint with its ledger.

    Attributes:
        values: the cells, as their channels hold them; absent where empty.
        created: microseconds since 1970-01-01 UTC.
        graph: the id of the graph that wrote it.
        version_floor: the highest version that any checkpoint of the thread uses, so that
            new versions never collide with those of another branch.
        head: the newest checkpoint of its thread and namespace, maybe itself.
        claim: an unfinished run on top of it.
        next: the stored projection of what runs next, for listing.
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
