"""Live chunks: what tasks send to a run's reader while they run.

Sends      custom chunks, messages and tool events from a node straight to the broadcast, without
           waiting for a save. Where no reader wants a live mode `LiveStream` is absent, and a
           writer does nothing
Messages   any object with a `content`, an `id` and a `type`; one without an id gets one, so that
           its pieces and the state agree on it
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, cast, get_args
from uuid import uuid4

import anyio
import anyio.lowlevel

from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.stepper import stepper_here, steps_here
from actorgraph.runtime.task.observer import CallObserver
from actorgraph.values.constants import TAG_NOSTREAM
from actorgraph.values.run import Task, Write
from actorgraph.values.stream_items import Namespace, namespace_of

LiveMode = Literal["custom", "messages", "tools"]
"""The modes whose chunks are sent by nodes; `superstep.chunks` makes those of the others."""

LIVE_MODES: frozenset[LiveMode] = frozenset(get_args(LiveMode))
_FRAMEWORK_TAGS = ("langsmith:", "seq:", "map:", "graph:")
"""Prefixes of tags that frameworks set; readers get only the user's own tags."""


class LiveStream:
    """The live chunks of one run for one reader.

    Args:
        modes: the live modes that the reader asked for in this run.
        namespace: the run's.
        step: returns the superstep that runs now.

    Attributes:
        seen: ids of the messages that the reader has, or is assumed to have; of all levels.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        modes: frozenset[str],
        namespace: Namespace,
        step: Callable[[], int],
    ) -> None:
        self.modes = modes
        self.step = step
        self.seen = broadcast.seen
        self._broadcast = broadcast
        self._namespace = namespace

    def offer(self, mode: LiveMode, chunk: Any) -> None:
        """Send a chunk, if its mode is read; see `Broadcast.offer`."""
        if mode in self.modes:
            self._broadcast.offer((self._namespace, mode, chunk))

    async def send(self, mode: LiveMode, chunk: Any) -> None:
        """Send a chunk, if its mode is read, once there is room for it."""
        if mode in self.modes:
            await self._broadcast.send((self._namespace, mode, chunk))

    def begin_anew(self, task: Task, attempt: int, streamed: Iterable[Any]) -> None:
        """Say that a task begins anew, if its messages are read.

        Args:
            streamed: ids of the messages of the attempt before, which may be sent once more.
        """
        if "messages" in self.modes:
            self.seen.difference_update(streamed)
            about = {"task": task.namespace, "node": task.name, "attempt": attempt}
            self._broadcast.begin_anew(about)

    @property
    def lags(self) -> bool:
        """Whether the reader is a whole buffer behind."""
        return self._broadcast.is_full

    async def pace(self) -> None:
        """Wait until the reader has caught up."""
        await self._broadcast.wait_room()

    async def pace_shielded(self) -> None:
        """`pace`, shielded: used between an `await` of a node and its result.

        A cancellation raised there would discard the result of an operation that has happened. In
        a stepper it ends this wait, because the run that leaves has no reader, and comes again at
        the next one.
        """
        stepper = stepper_here() if steps_here() else None
        if stepper is not None:
            try:
                await self._broadcast.wait_room()
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - raised where the task waits next
                stepper.error = error
            return
        with anyio.CancelScope(shield=True):
            await self._broadcast.wait_room()


def live_stream_of(broadcast: Broadcast, text: str, step: Callable[[], int]) -> LiveStream | None:
    """The live chunks of a run; None if its reader asked for no live mode.

    Args:
        text: the run's namespace.
        step: returns the superstep that runs now.
    """
    namespace = namespace_of(text)
    modes = broadcast.modes_at(namespace) & LIVE_MODES
    return LiveStream(broadcast, modes, namespace, step) if modes else None


class Writer:
    """Sends custom chunks to the readers of `stream_mode="custom"`; without readers a no-op.

    `writer(chunk)` never waits in async code: a node that writes faster than its reader reads is
    held at its next `await`. `await writer.asend(chunk)` waits for room first; use it in tasks
    that a node starts, because they aren't held.
    """

    __slots__ = ("_live",)

    def __init__(self, live: LiveStream | None) -> None:
        self._live = live

    def offer(self, mode: LiveMode, chunk: Any) -> None:
        """Send a chunk of another live mode, if it is read."""
        if self._live is not None:
            self._live.offer(mode, chunk)

    def __call__(self, chunk: Any) -> None:
        """Send a chunk; in a sync node it waits while the reader is a whole buffer behind."""
        if self._live is not None:
            self._live.offer("custom", chunk)

    async def asend(self, chunk: Any) -> None:
        """Send a chunk once the reader has room for it."""
        # A checkpoint even without a reader: a node must not behave differently when it is read.
        await anyio.lowlevel.checkpoint()
        if self._live is not None:
            await self._live.send("custom", chunk)


NO_WRITER = Writer(None)
"""The writer of runs whose live chunks aren't read."""


class MessageTap:
    """Sends one task's messages to the reader of `stream_mode="messages"`.

    Attributes:
        metadata: goes with each message: where in the run it comes from.
        tags: the user's; they go with what a model or a writer streams.
    """

    __slots__ = ("_live", "metadata", "tags", "task")

    def __init__(
        self, live: LiveStream, task: Task, metadata: dict[str, Any], tags: list[str]
    ) -> None:
        self._live = live
        self.task = task
        self.metadata = metadata
        self.tags = tags

    def described(self, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
        """The task's metadata and tags, updated with the sender's metadata."""
        tags = {"tags": self.tags} if self.tags else {}
        return {**self.metadata, **tags, **(metadata or {})}

    def offer(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Send a message or a piece of one now."""
        self._live.seen.add(message_id(message))
        self._live.offer("messages", (message, dict(metadata)))

    async def send(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Send a message once the reader has room for it."""
        self._live.seen.add(message_id(message))
        await self._live.send("messages", (message, dict(metadata)))

    def offer_new(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Send a whole message unless the reader has it already."""
        if getattr(message, "id", None) not in self._live.seen:
            self.offer(message, metadata)

    def offer_returned(self, writes: Iterable[Write]) -> None:
        """Send the messages that a node has returned."""
        for _, value in writes:
            for message in messages_in(value):
                self.offer_new(message, self.metadata)


class MessageWriter:
    """Sends messages, or pieces of them, to the readers of `stream_mode="messages"`.

    `writer(chunk)` and `await writer.asend(chunk)` differ as those of `Writer` do. Readers
    that join pieces do so by the chunks' `id`.
    """

    __slots__ = ("_observer", "_tap")

    def __init__(self, tap: MessageTap | None, observer: CallObserver | None = None) -> None:
        self._tap = tap
        self._observer = observer

    def __call__(self, message: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Send a message; `metadata` is added to the task's, and `tags` may contain "nostream"."""
        if _is_hidden(metadata):
            return
        if self._tap is not None:
            self._tap.offer(message, self._tap.described(metadata))
        if self._observer is not None:
            self._observer.offer(message, metadata or {})

    async def asend(self, message: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Send a message once the reader has room for it."""
        await anyio.lowlevel.checkpoint()
        await self.pass_on(message, metadata)

    async def pass_on(self, message: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """As `asend`, for what has waited already, such as for the bytes of the message."""
        if _is_hidden(metadata):
            return
        if self._tap is not None:
            await self._tap.send(message, self._tap.described(metadata))
        if self._observer is not None:
            self._observer.offer(message, metadata or {})


def user_tags(tags: Iterable[str]) -> list[str]:
    """The tags that a user has set."""
    return [tag for tag in tags if not tag.startswith(_FRAMEWORK_TAGS)]


def message_id(message: Any) -> Any:
    """The id of a message; a message without one gets a random one."""
    identifier = getattr(message, "id", None)
    if identifier is None:
        identifier = str(uuid4())
        with suppress(Exception):  # a frozen message stays without one
            message.id = identifier
    return identifier


def messages_in(value: Any) -> Iterator[Any]:
    """The message that a value is, or those in a sequence."""
    if _is_message(value):
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (item for item in cast("list[Any]", value) if _is_message(item))


def _is_hidden(metadata: Mapping[str, Any] | None) -> bool:
    return metadata is not None and TAG_NOSTREAM in (metadata.get("tags") or ())


def _is_message(value: Any) -> bool:
    return (
        hasattr(value, "content")
        and hasattr(value, "id")
        and isinstance(getattr(value, "type", None), str)
        and not isinstance(value, type)
    )
