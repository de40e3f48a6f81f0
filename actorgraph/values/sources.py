"""What has made a checkpoint, and where one stands, as values of their own."""

from enum import StrEnum
from typing import Any, Self

import msgspec


class CheckpointSource(StrEnum):
    """What has made a checkpoint; its text is what is stored and shown."""

    INPUT = "input"
    LOOP = "loop"
    UPDATE = "update"
    FORK = "fork"

    @classmethod
    def parse(cls, text: str) -> "CheckpointSource | None":
        """The source that a text names; None if it names none."""
        return next((source for source in cls if source.value == text), None)


class CheckpointConfig(msgspec.Struct, frozen=True):
    """Where a checkpoint stands.

    Attributes:
        checkpoint_id: None means the newest.
        namespace: "" for the thread's own graph.
    """

    thread_id: str
    checkpoint_id: str | None = None
    namespace: str = ""

    @classmethod
    def latest(cls, thread_id: str) -> Self:
        """The newest checkpoint of a thread's own graph."""
        return cls(thread_id)

    @property
    def config(self) -> dict[str, Any]:
        """What graphs and savers take as their config."""
        place = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if self.checkpoint_id is not None:
            place["checkpoint_id"] = self.checkpoint_id
        return {"configurable": place}
