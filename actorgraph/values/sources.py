"""CheckpointSource and CheckpointConfig: a checkpoint's source and its address."""

from enum import StrEnum
from typing import Any, Self

import msgspec


class CheckpointSource(StrEnum):
    """The operation that made a checkpoint; its value is the stored text."""

    INPUT = "input"
    LOOP = "loop"
    UPDATE = "update"
    FORK = "fork"

    @classmethod
    def parse(cls, text: str) -> "CheckpointSource | None":
        """Parse the stored text; None if it is unknown."""
        return next((source for source in cls if source.value == text), None)


class CheckpointConfig(msgspec.Struct, frozen=True):
    """The address of a checkpoint.

    Attributes:
        checkpoint_id: None for the newest.
        namespace: "" for the thread's own graph.
    """

    thread_id: str
    checkpoint_id: str | None = None
    namespace: str = ""

    @classmethod
    def latest(cls, thread_id: str) -> Self:
        """Address the newest checkpoint of a thread's own graph."""
        return cls(thread_id)

    @property
    def config(self) -> dict[str, Any]:
        """The address as a config for graphs and savers."""
        place = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if self.checkpoint_id is not None:
            place["checkpoint_id"] = self.checkpoint_id
        return {"configurable": place}
