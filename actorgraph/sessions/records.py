"""What a session keeps of a turn, and what it asks of the one that keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from actorgraph.errors import SerializationError
from actorgraph.stores.texts import find_unstorable, from_text, to_text

LIMIT = 10


@dataclass(frozen=True)
class Checkpoint:
    """A snapshot of a session.

    Attributes:
        id: sorts by age within one process; the saver's order counts.
        created_at: in UTC, for display.
        state: the session's data; what JSON has.
        parent_id: the checkpoint that it follows, if it was said.
        metadata: about the snapshot; what JSON has.
    """

    id: str
    thread_id: str
    created_at: datetime
    state: dict[str, Any]
    parent_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@runtime_checkable
class CheckpointSaver(Protocol):
    """What keeps the checkpoints of sessions. Any object with these four methods is one.

    They may be called from several threads. A saver in front of another engine forwards them.
    """

    def get(self, thread_id: str, checkpoint_id: str | None = None) -> Checkpoint | None:
        """The checkpoint of that id, or the last one that was put; None if there is none."""
        ...

    def put(
        self,
        thread_id: str,
        state: Mapping[str, Any],
        *,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Keep a new checkpoint, and return it as `get` will."""
        ...

    def list(
        self, thread_id: str, *, before: str | None = None, limit: int = LIMIT
    ) -> list[Checkpoint]:
        """Checkpoints, the last one first; only such as were put before `before`; at most `limit`.

        Nothing for a limit below 1, and for a `before` that isn't there.
        """
        ...

    def delete(self, thread_id: str) -> None:
        """Remove every checkpoint of the thread."""
        ...


def as_json(what: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of a mapping, as JSON gives it back: tuples are lists.

    Raises:
        SerializationError: it holds what JSON has not; the text names the path. A TypeError.
    """
    found: Any = {} if value is None else dict(value) if isinstance(value, Mapping) else value
    if isinstance(found, dict):
        wrong = find_unstorable(found)
    else:
        wrong = ("", f"is a {type(value).__name__}")
    if wrong:
        raise SerializationError(
            f"{what}{wrong[0]} {wrong[1]}, which JSON doesn't have",
            do="keep dicts with text keys, lists, text, finite numbers, bools and None in it; "
            "turn other objects into these first",
        )
    return from_text(to_text(found, what))
