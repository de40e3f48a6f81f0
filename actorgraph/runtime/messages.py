"""Messages on their way to the readers of `stream_mode="messages"`.

They come from three places: whatever code hands to `get_message_writer()`; LangChain's chat
models, by a callback (`runtime/langchain.py`); and the messages that a node returns, unless they
were in its input or have been streamed already. A message is any object with a `content`, an
`id` and a `type`; one without an id gets one, so that its pieces and the state agree on it.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, cast
from uuid import uuid4

import anyio.lowlevel
import msgspec

from actorgraph.errors import OutsideRunError
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.runtime.context import CURRENT, TaskScope, place_of
from actorgraph.runtime.live import Live
from actorgraph.values.constants import TAG_NOSTREAM
from actorgraph.values.run import Task, Write

_OUR_TAGS = ("langsmith:", "seq:", "map:", "graph:")
"""Tags that frameworks set; readers see the user's own."""


class MessageTap:
    """One task's messages.

    Attributes:
        metadata: goes with each message: where in the run it comes from.
        tags: the user's; they go with what a model or a writer streams.
    """

    __slots__ = ("_live", "metadata", "tags", "task")

    def __init__(self, live: Live, task: Task, metadata: dict[str, Any], tags: list[str]) -> None:
        self._live = live
        self.task = task
        self.metadata = metadata
        self.tags = tags

    def described(self, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
        """The task's metadata and tags, and what the sender adds."""
        tags = {"tags": self.tags} if self.tags else {}
        return {**self.metadata, **tags, **(metadata or {})}

    def offer(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Send a message or a piece of one now."""
        self._live.seen.add(identified(message))
        self._live.offer("messages", (message, dict(metadata)))

    async def send(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Send it once the reader has room."""
        self._live.seen.add(identified(message))
        await self._live.send("messages", (message, dict(metadata)))

    def offer_new(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Send a whole message unless the reader has it already."""
        if getattr(message, "id", None) not in self._live.seen:
            self.offer(message, metadata)

    def returned(self, writes: Iterable[Write]) -> None:
        """Send the messages that a node has returned."""
        for _, value in writes:
            for message in _messages_in(value):
                self.offer_new(message, self.metadata)


class MessageWriter:
    """Sends messages, or pieces of them, to the readers of `stream_mode="messages"`.

    `writer(chunk)` and `await writer.asend(chunk)` differ as they do for `Writer`. Readers that
    join pieces do so by the chunks' `id`.
    """

    __slots__ = ("_tap",)

    def __init__(self, tap: MessageTap | None) -> None:
        self._tap = tap

    def __call__(self, message: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Send a message; `metadata` is added to the task's, and `tags` may say "nostream"."""
        if self._tap is not None and not _silent(metadata):
            self._tap.offer(message, self._tap.described(metadata))

    async def asend(self, message: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Send a message once the reader has room for it."""
        await anyio.lowlevel.checkpoint()
        if self._tap is not None and not _silent(metadata):
            await self._tap.send(message, self._tap.described(metadata))


def get_message_writer() -> MessageWriter:
    """A function that sends pieces of messages to the readers of `stream_mode="messages"`.

    For models that are not LangChain's; those are listened to.

    Raises:
        OutsideRunError: not called in a node.
    """
    try:
        return MessageWriter(CURRENT.get().messages)
    except LookupError:
        raise OutsideRunError(
            "get_message_writer() was called outside of a node",
            do="call it in a node, or in a function that a node calls",
        ) from None


def attach(live: Live, node: NodePlan, scope: TaskScope, context: Context, given: Any) -> None:
    """Listen to one task, if somebody reads messages.

    Args:
        context: the task's own; LangChain's callbacks are set in it.
        given: the node's input, whose messages readers are taken to know.
    """
    if "messages" not in live.modes:
        return
    live.seen.update(identified(m) for m in _messages_of(given) if m.id is not None)
    tags = user_tags([*(scope.config.get("tags") or ()), *node.metadata.get("tags", ())])
    tap = MessageTap(live, scope.task, metadata_of(scope, node, live.step()), tags)
    scope.messages = tap
    if "langchain_core" in sys.modules:
        from actorgraph.runtime import langchain

        langchain.listen(tap, scope, context)


def returned(scope: TaskScope, node: NodePlan, plan: Plan, writes: Iterable[Write]) -> None:
    """Send the messages that a node has returned, unless the node is hidden."""
    if scope.messages is not None and not node.hidden:
        broadcast = scope.lineage.broadcast
        if plan.untracked and broadcast is not None and broadcast.is_stored:
            writes = [write for write in writes if write[0] not in plan.untracked]
        scope.messages.returned(writes)


def metadata_of(scope: TaskScope, node: NodePlan, step: int) -> dict[str, Any]:
    """What a reader learns of a message's origin, the caller's and the node's metadata in it."""
    config, task = scope.config, scope.task
    metadata: dict[str, Any] = dict(config.get("metadata") or {})
    thread = (config.get("configurable") or {}).get("thread_id")
    if thread is not None:
        metadata["thread_id"] = thread
    metadata.update(place_of(task, step))
    metadata.update((k, v) for k, v in node.metadata.items() if k != "tags")
    return metadata


def user_tags(tags: Iterable[str]) -> list[str]:
    """The tags that a user has set."""
    return [tag for tag in tags if not tag.startswith(_OUR_TAGS)]


def identified(message: Any) -> Any:
    """The id of a message, which it gets if it has none."""
    identifier = getattr(message, "id", None)
    if identifier is None:
        identifier = str(uuid4())
        with suppress(Exception):  # a frozen message stays without one
            message.id = identifier
    return identifier


def _silent(metadata: Mapping[str, Any] | None) -> bool:
    return metadata is not None and TAG_NOSTREAM in (metadata.get("tags") or ())


def _is_message(value: Any) -> bool:
    return (
        hasattr(value, "content")
        and hasattr(value, "id")
        and isinstance(getattr(value, "type", None), str)
        and not isinstance(value, type)
    )


def _messages_in(value: Any) -> Iterator[Any]:
    """The message that a value is, or those in a sequence."""
    if _is_message(value):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (item for item in cast("list[Any]", value) if _is_message(item))


def _messages_of(state: Any) -> Iterator[Any]:
    """The messages of a node's input, one level deep."""
    if isinstance(state, Mapping):
        values: Iterable[Any] = cast("Mapping[str, Any]", state).values()
    elif dataclasses.is_dataclass(state) and not isinstance(state, type):
        values = [getattr(state, field.name) for field in dataclasses.fields(state)]
    elif isinstance(state, msgspec.Struct):
        values = [getattr(state, name) for name in state.__struct_fields__]
    elif fields := getattr(type(state), "model_fields", None):
        values = [getattr(state, name) for name in fields]
    else:
        values = [state]
    for value in values:
        yield from _messages_in(value)
