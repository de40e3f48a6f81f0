"""Store the checkpoints of sessions: `Checkpoint`, `CheckpointSaver`, and `SessionSaver`.

`SessionSaver` stores them in a saver of graphs, in a namespace of their own, so that a graph may
have a thread with the same id. The saver decides their order, not the clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from actorgraph.errors import SerializationError
from actorgraph.stores.texts import find_unstorable, from_text, to_text

LIMIT = 10
"""Checkpoints that `list` returns by default."""


@dataclass(frozen=True)
class Checkpoint:
    """A snapshot of a session.

    Attributes:
        id: sorts by age within one process; the saver's order is authoritative.
        thread_id: of the session.
        created_at: in UTC, for display.
        state: the session's data, JSON values.
        parent_id: the checkpoint that it follows, if known.
        metadata: about the snapshot, JSON values.
    """

    id: str
    thread_id: str
    created_at: datetime
    state: dict[str, Any]
    parent_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class CheckpointSaver(Protocol):
    """Stores the checkpoints of sessions. Any object with these four methods is one.

    They may be called from several threads.
    """

    def get(self, thread_id: str, checkpoint_id: str | None = None) -> Checkpoint | None:
        """Return the checkpoint with this id, or the last one that was put; None without one."""
        ...

    def put(
        self,
        thread_id: str,
        state: Mapping[str, Any],
        *,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Store a new checkpoint, and return it as `get` will."""
        ...

    def list(
        self, thread_id: str, *, before: str | None = None, limit: int = LIMIT
    ) -> list[Checkpoint]:
        """List checkpoints, the last one first.

        Args:
            thread_id: of the session.
            before: only those that were put before this one; an unknown id lists nothing.
            limit: the most checkpoints; a value below 1 lists nothing.
        """
        ...

    def delete(self, thread_id: str) -> None:
        """Remove every checkpoint of the thread."""
        ...


def as_json(what: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of a mapping as JSON decodes it: tuples are lists.

    Args:
        what: names the mapping in the error.
        value: None is an empty one.
    Raises:
        SerializationError: a value is not JSON; the text has its path. Also a TypeError.
    """
    found: Any = {} if value is None else dict(value) if isinstance(value, Mapping) else value
    if isinstance(found, dict):
        wrong = find_unstorable(found)
    else:
        wrong = ("", f"is a {type(value).__name__}")
    if wrong:
        raise SerializationError(
            f"{what}{wrong[0]} {wrong[1]}, which JSON doesn't have",
            do="use dicts with string keys, lists, strings, finite numbers, bools and None; "
            "convert other objects first",
        )
    return from_text(to_text(found, what))
