"""Store the checkpoints of sessions: `Checkpoint`, `CheckpointSaver`, and `SessionSaver`.

`SessionSaver` stores them in a saver of graphs, in a namespace of their own, so that a graph may
have a thread with the same id. The saver decides their order, not the clock.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, cast, runtime_checkable
from uuid import UUID

from actorgraph.api.blocking import block_on
from actorgraph.api.savers.hosted import InMemorySaver
from actorgraph.errors import CheckpointNotFoundError, InvalidConfigError, SerializationError
from actorgraph.runtime.clock import IDS
from actorgraph.stores.item_values import find_unstorable, from_text, to_text
from actorgraph.superstep.snapshot import iso
from actorgraph.values.checkpoint import CheckpointTuple
from actorgraph.values.constants import CHECKPOINT_FORMAT
from actorgraph.values.ids import GREGORIAN_OFFSET, as_text, ticks_of

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


NAMESPACE = "__session__"


class SessionSaver:
    """Stores checkpoints of sessions in a saver. Safe to use from several threads and event loops.

    Each method has an async version: `aget`, `aput`, `alist`, `adelete`.

    Args:
        saver: any saver of this library, or one with LangGraph's async methods. Default a new
            `InMemorySaver`, which is lost with the process.

    Attributes:
        saver: as given.
    """

    def __init__(self, saver: Any = None) -> None:
        self.saver = InMemorySaver() if saver is None else saver

    @property
    def durable(self) -> bool:
        """Whether checkpoints survive the process."""
        return bool(getattr(self.saver, "durable", True))

    async def aget(self, thread_id: str, checkpoint_id: str | None = None) -> Checkpoint | None:
        """Return the checkpoint with this id, or the last one that was put; None without one.

        Raises:
            InvalidConfigError: the thread id is empty or not text.
        """
        if checkpoint_id is not None and not _is_id(checkpoint_id):
            _config(thread_id)
            return None
        found = await self.saver.aget_tuple(_config(thread_id, checkpoint_id))
        return None if found is None else _checkpoint(thread_id, found)

    async def aput(
        self,
        thread_id: str,
        state: Mapping[str, Any],
        *,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Store a new checkpoint; if the saver is durable, it is durable when this returns.

        Args:
            thread_id: of the session.
            state: JSON values; tuples become lists.
            parent_id: the checkpoint that it follows; default none.
            metadata: JSON values; tuples become lists.
        Returns: the checkpoint as `aget` will return it.
        Raises:
            SerializationError: the state or the metadata isn't JSON; nothing is stored.
            CheckpointNotFoundError: the thread has no checkpoint `parent_id`.
        """
        place = _config(thread_id, parent_id)
        values = {"state": as_json("state", state), "metadata": as_json("metadata", metadata)}
        if parent_id is not None and await self.aget(thread_id, parent_id) is None:
            raise CheckpointNotFoundError(
                f"session {thread_id!r} has no checkpoint {parent_id!r}",
                do="pass the id of one of its checkpoints, or None",
            )
        own = IDS.checkpoint(0, UUID(parent_id).bytes if parent_id else None)
        ticks = ticks_of(own) - GREGORIAN_OFFSET
        # Values are stored by version, so no two checkpoints of a thread may share one, even if
        # two processes put at the same moment: hence the random bits.
        version = ticks * 256 + secrets.randbits(8)
        record: Any = {
            "v": CHECKPOINT_FORMAT,
            "id": as_text(own),
            "ts": iso(ticks // 10),
            "channel_values": values,
            "channel_versions": {"state": version, "metadata": version},
            "versions_seen": {},
            "updated_channels": None,
        }
        about = {"source": "update", "step": 0, "parents": {}}
        await self.saver.aput(place, record, about, record["channel_versions"])
        moment = datetime.fromisoformat(record["ts"])
        return Checkpoint(
            record["id"], thread_id, moment, values["state"], parent_id, values["metadata"]
        )

    async def alist(
        self, thread_id: str, *, before: str | None = None, limit: int = LIMIT
    ) -> list[Checkpoint]:
        """List checkpoints, the last one first.

        Args:
            thread_id: of the session.
            before: only those that were put before this one; an unknown id lists nothing.
            limit: the most checkpoints; a value below 1 lists nothing.
        Raises:
            InvalidConfigError: `limit` is not an integer.
        """
        config = _config(thread_id)
        if not isinstance(limit, int) or isinstance(limit, bool):
            raise InvalidConfigError(
                f"limit must be an integer, got {limit!r}", do="use e.g. limit=10"
            )
        if limit < 1 or (before is not None and await self.aget(thread_id, before) is None):
            return []
        older = None if before is None else _config(thread_id, before)
        found = self.saver.alist(config, before=older, limit=limit)
        return [_checkpoint(thread_id, one) async for one in found]

    async def adelete(self, thread_id: str) -> None:
        """Remove everything of the thread, including a graph's checkpoints with that thread id."""
        _config(thread_id)
        await self.saver.adelete_thread(thread_id)

    def get(self, thread_id: str, checkpoint_id: str | None = None) -> Checkpoint | None:
        """Blocking version of `aget`."""
        return block_on("aget", lambda: self.aget(thread_id, checkpoint_id))

    def put(
        self,
        thread_id: str,
        state: Mapping[str, Any],
        *,
        parent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """Blocking version of `aput`."""
        # Copied here: the saver works in another thread, and the caller may change them.
        kept, about = as_json("state", state), as_json("metadata", metadata)
        return block_on(
            "aput", lambda: self.aput(thread_id, kept, parent_id=parent_id, metadata=about)
        )

    def list(
        self, thread_id: str, *, before: str | None = None, limit: int = LIMIT
    ) -> "list[Checkpoint]":
        """Blocking version of `alist`."""
        return block_on("alist", lambda: self.alist(thread_id, before=before, limit=limit))

    def delete(self, thread_id: str) -> None:
        """Blocking version of `adelete`."""
        block_on("adelete", lambda: self.adelete(thread_id))


def _config(thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    if not isinstance(thread_id, str) or not thread_id:
        raise InvalidConfigError(
            f"thread_id must be text that is not empty, got {thread_id!r}",
            do="pass the session's id",
        )
    place = {"thread_id": thread_id, "checkpoint_ns": NAMESPACE}
    return {"configurable": place | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def _checkpoint(thread_id: str, found: CheckpointTuple) -> Checkpoint:
    record = found.checkpoint
    parent = (found.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    values = record["channel_values"]
    return Checkpoint(
        id=record["id"],
        thread_id=thread_id,
        created_at=datetime.fromisoformat(record["ts"]),
        state=cast("dict[str, Any]", values["state"]),
        parent_id=parent,
        metadata=cast("dict[str, Any]", values["metadata"]),
    )
