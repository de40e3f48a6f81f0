"""CheckpointSummary: a row of a listing of checkpoints, made without reading their values."""

from typing import Any

import msgspec


class CheckpointSummary(msgspec.Struct, frozen=True):
    """One checkpoint, without its values and its pending writes.

    Attributes:
        checkpoint_ns: "" for the thread's own graph.
        parent_id: None for the first of a thread.
        sequence: its number in the order in which the thread's checkpoints were stored, from 1.
        step: its superstep; -1 for the first input.
        source: "input", "loop", "update" or "fork".
        run_id: the run that stored it; None outside of runs.
        next: the nodes that run next.
        created_at: ISO 8601, UTC; for display.
        metadata: the caller's.
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
        """The config that addresses the checkpoint."""
        place = {
            "thread_id": self.thread_id,
            "checkpoint_ns": self.checkpoint_ns,
            "checkpoint_id": self.checkpoint_id,
        }
        return {"configurable": place}
