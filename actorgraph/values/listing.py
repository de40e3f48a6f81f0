"""What a listing of checkpoints shows without reading their values."""

from typing import Any

import msgspec


class CheckpointSummary(msgspec.Struct, frozen=True):
    """One checkpoint, without its values and the writes beside it.

    Attributes:
        checkpoint_ns: "" for the thread's own graph.
        parent_id: None for the first of a thread.
        sequence: its place in the order in which the thread's checkpoints were stored, from 1.
        source: "input", "loop", "update" or "fork".
        run_id: the run that stored it; None outside of runs.
        next: the nodes that run next.
        created_at: ISO 8601, UTC; for display.
        metadata: what callers declared.
    """

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_id: str | None
    sequence: int
    step: int
    source: str
    run_id: str | None
    next: tuple[str, ...]
    created_at: str
    metadata: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """Addresses the checkpoint."""
        place = {
            "thread_id": self.thread_id,
            "checkpoint_ns": self.checkpoint_ns,
            "checkpoint_id": self.checkpoint_id,
        }
        return {"configurable": place}
