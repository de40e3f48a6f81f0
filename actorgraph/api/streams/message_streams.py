"""Streams of messages: `run.messages`, one stream per message, and `push_message`."""

from collections.abc import Callable, Coroutine, Generator
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar

from actorgraph.api.streams.events import ProtocolEvent, StreamChannel, StreamMux, StreamTransformer
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidUpdateError, OutsideRunError
from actorgraph.messages.conversion import converted
from actorgraph.runtime.stepper import in_portal
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.values.stream_items import Namespace


class MessagePart(StreamChannel[Any]):
    """A part of a message: its pieces as they come, for one reader, or `await part`: the whole.

    Args:
        whole: waits for the end of the message, and returns the whole part.
    """

    def __init__(self, mux: StreamMux, whole: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        super().__init__()
        self.bind(mux, None)
        self.keep()
        self._whole = whole

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._whole().__await__()


class BlockingMessagePart(MessagePart):
    """`MessagePart` for sync code; `str(part)` is the whole as text."""

    def get(self) -> Any:
        """The whole; blocks until the message is complete."""
        return in_portal(self._whole)

    def __str__(self) -> str:
        return str(self.get())


class AsyncMessageStream:
    """A message that a model is generating.

    Attributes:
        message_id: its id.
        node: the node that the model runs in.
        metadata: of its first chunk.
        text: its text, piece by piece from the beginning, or `await message.text`.
        reasoning: the text of the model's reasoning, likewise.
        tool_calls: LangChain's chunks of its tool calls, or `await message.tool_calls`: the list.
        chunks: the chunks so far.
        done: whether it is complete.
    """

    _part: ClassVar[type[MessagePart]] = MessagePart

    def __init__(self, mux: StreamMux, message_id: Any, metadata: dict[str, Any]) -> None:
        self._mux = mux
        self.message_id = message_id
        self.metadata = metadata
        self.node: str | None = metadata.get("langgraph_node")
        self.text = self._part(mux, partial(self._joined, _text_of))
        self.reasoning = self._part(mux, partial(self._joined, _reasoning_of))
        self.tool_calls = self._part(mux, self._calls)
        self.chunks: list[Any] = []
        self.done = False
        self._error: BaseException | None = None

    @property
    def output(self) -> "_AwaitableMessage":
        """The complete message: `await message.output`."""
        return _AwaitableMessage(self)

    async def whole(self) -> Any:
        """Wait for the last chunk, and return the sum of all; a list if they can't be added.

        Raises:
            Exception: the run failed before the message was complete.
        """
        await self._wait()
        if len(self.chunks) == 1:
            return self.chunks[0]
        try:
            return reduce(add, self.chunks)
        except TypeError:
            return list(self.chunks)

    async def _wait(self) -> None:
        while not self.done and await self._mux.advance():
            pass
        if self._error is not None:
            raise self._error

    async def _joined(self, piece_of: Callable[[Any], str]) -> str:
        await self._wait()
        return "".join(map(piece_of, self.chunks))

    async def _calls(self) -> list[Any]:
        return list(getattr(await self.whole(), "tool_calls", None) or ())

    def take(self, chunk: Any) -> None:
        """Add a chunk."""
        self.chunks.append(chunk)
        if text := _text_of(chunk):
            self.text.push(text)
        if reasoning := _reasoning_of(chunk):
            self.reasoning.push(reasoning)
        for piece in getattr(chunk, "tool_call_chunks", None) or ():
            self.tool_calls.push(piece)

    def end(self, error: BaseException | None = None) -> None:
        """End the message."""
        self.done, self._error = True, error
        for part in (self.text, self.reasoning, self.tool_calls):
            if error is None:
                part.close()
            else:
                part.fail(error)


class MessageStream(AsyncMessageStream):
    """`AsyncMessageStream` for sync code: `str(message.text)`, `message.tool_calls.get()`."""

    _part = BlockingMessagePart

    @property
    def output(self) -> Any:
        """The complete message; blocks until it is there."""
        return in_portal(self.whole)


class _AwaitableMessage:
    def __init__(self, message: AsyncMessageStream) -> None:
        self._message = message

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._message.whole().__await__()


class MessagesTransformer(StreamTransformer):
    """Groups chunks of mode "messages" by message.

    A message ends with its last chunk or with its task. Tool messages are left out: no model
    generates them.
    """

    _native = True
    required_stream_modes = ("messages", "tasks")

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[AsyncMessageStream] = StreamChannel()
        self._open: dict[Any, AsyncMessageStream] = {}

    def init(self) -> dict[str, Any]:
        """Return the channel `messages`."""
        return {"messages": self.channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Handle a chunk, or the end of a task."""
        params = event["params"]
        if tuple(params["namespace"]) != self.scope:
            return True
        if event["method"] == "messages":
            self._take(*params["data"])
        elif event["method"] == "tasks" and params["data"].get("error", "") is None:
            self._end_of(params["data"]["id"])
        return True

    def finalize(self) -> None:
        """End the open messages."""
        for message in self._open.values():
            message.end()
        self._open.clear()

    def fail(self, err: BaseException) -> None:
        """Fail the open messages."""
        for message in self._open.values():
            message.end(err)
        self._open.clear()

    def _take(self, chunk: Any, metadata: dict[str, Any]) -> None:
        # A transformer before this one may take a chunk away.
        if chunk is None or getattr(chunk, "type", None) in ("tool", "remove"):
            return
        assert self._mux is not None
        identifier = getattr(chunk, "id", None)
        message = self._open.get(identifier)
        if message is None:
            kind = MessageStream if self._mux.blocking else AsyncMessageStream
            message = self._open[identifier] = kind(self._mux, identifier, metadata)
            self.channel.push(message)
        message.take(chunk)
        if getattr(chunk, "chunk_position", None) == "last":
            self._open.pop(identifier).end()

    def _end_of(self, task: str) -> None:
        for identifier, message in list(self._open.items()):
            if _is_of(message.metadata, task):
                self._open.pop(identifier).end()


class WholeMessages:
    """Joins the pieces of each message, for transformers that change messages.

    The text that such a transformer looks for may be split over two pieces.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[Namespace, Any], dict[str, Any]] = {}

    def take(self, part: dict[str, Any]) -> list[dict[str, Any]]:
        """Take a part of a stream; return those to show: whole messages instead of pieces."""
        if part["type"] == "messages" and _is_piece(part["data"][0]):
            return self._join(part)
        if part["type"] == "tasks" and "result" in part["data"]:
            task: str = part["data"]["id"]
            ended = [key for key, open_ in self._open.items() if _is_of(open_["data"][1], task)]
            return [*(_whole(self._open.pop(key)) for key in ended), part]
        return [part]

    def rest(self) -> list[dict[str, Any]]:
        """Return the messages that are left at the end of the run."""
        left = [_whole(part) for part in self._open.values()]
        self._open.clear()
        return left

    def _join(self, part: dict[str, Any]) -> list[dict[str, Any]]:
        piece, metadata = part["data"]
        key = (part["ns"], piece.id)
        known = self._open.get(key)
        if known is None:
            self._open[key] = {**part, "data": ([piece], metadata)}
        else:
            known["data"][0].append(piece)
        if getattr(piece, "chunk_position", None) != "last":
            return []
        return [_whole(self._open.pop(key))]


def _is_piece(message: Any) -> bool:
    return any(kind.__name__ == "AIMessageChunk" for kind in type(message).__mro__)


def _is_of(metadata: dict[str, Any], task: str) -> bool:
    place: str = metadata.get("langgraph_checkpoint_ns", "")
    return place.endswith(f":{task}")


def _whole(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part with the sum of its pieces; LangChain's become its plain message."""
    pieces, metadata = part["data"]
    message = BRIDGE.whole_message(reduce(add, pieces))
    return {**part, "data": (message, metadata)}


def _text_of(chunk: Any) -> str:
    """Return the text of a chunk, whether its content is text or a list of blocks."""
    content = chunk.content
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(b.get("text", "") if isinstance(b, dict) else str(b) for b in blocks)


def _reasoning_of(chunk: Any) -> str:
    """Return the reasoning in a chunk: of blocks, or where models of OpenAI's form have it."""
    blocks = chunk.content if isinstance(chunk.content, list) else []
    parts = [b.get("reasoning") or b.get("thinking") for b in blocks if isinstance(b, dict)]
    if not any(parts):
        parts = [(getattr(chunk, "additional_kwargs", None) or {}).get("reasoning_content")]
    return "".join(part for part in parts if isinstance(part, str))


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Send a message to the readers of `stream_mode="messages"`, and write it to the state.

    Args:
        message: in any form that `add_messages` takes; it must have an id.
        state_key: the key to write it to when the node ends; None to only stream it.
    Returns: the message.
    Raises:
        InvalidUpdateError: it has no id.
        OutsideRunError: not called in a node.
    """
    try:
        scope = CURRENT.get()
    except LookupError:
        raise OutsideRunError(
            "push_message() was called outside a node",
            do="call it in a node, or in a function that a node calls",
        ) from None
    (made,) = converted([message])
    if made.id is None:
        raise InvalidUpdateError(
            "Message ID is required: push_message() got a message without an id",
            do="give it one, such as str(uuid4())",
        )
    if scope.messages is not None:
        scope.messages.offer_new(made, scope.messages.metadata)
    if state_key is not None:
        scope.pushed.append((state_key, made))
    return made
