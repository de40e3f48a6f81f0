"""Messages in the streaming protocol: pieces of messages become blocks with a start and an end.

Pure. A message begins with `message-start`; its blocks follow one after the other, each with
`content-block-start`, deltas and `content-block-finish`; `message-finish` ends it. Models send
pieces without such borders: a block ends where the next one begins, and a message with the piece
that is marked as the last, with a whole message, or with its task. One whose attempt has failed
ends with `error`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from actorgraph.internals import Namespace
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.message_attempts import MessageAttempts

BROKEN_OFF = "the attempt that wrote this message has failed; its task begins anew"
OPEN_MAX = 256
"""Messages that may be open at once; with one more, the one that was begun first is finished."""

Data = dict[str, Any]

_ROLES = {"human": "human", "user": "human", "system": "system", "tool": "tool"}
_OF_CALLS = frozenset(
    ("tool_use", "input_json_delta", "tool_call", "tool_call_chunk", "function_call")
)
"""Blocks of a message's content that repeat its tool calls."""

_TEXTS = {"text": "text", "reasoning": "reasoning"}
_CALLS = {"tool_call_chunk": "tool_call", "server_tool_call_chunk": "server_tool_call"}
_TOKENS = ("input_tokens", "output_tokens", "total_tokens")


class _OpenBlock:
    """A block that may continue."""

    def __init__(self, index: int, block: Data) -> None:
        self.index = index
        self.kind: str = block["type"]
        self.place = block.get("index")
        self.content: Data = {"type": self.kind}

    def continues(self, block: Data) -> bool:
        """Whether a piece belongs to this block."""
        if block["type"] != self.kind:
            return False
        if self.kind in _CALLS and self.place is None and block.get("id"):
            return block["id"] == self.content.get("id")
        return block.get("index") == self.place

    def start(self) -> Data:
        """The event that opens it, without content."""
        if self.kind in _CALLS:
            self.content |= {"id": None, "name": None, "args": ""}
        else:
            self.content[_TEXTS[self.kind]] = ""
        return {"event": "content-block-start", "index": self.index, "content": {**self.content}}

    def add(self, block: Data) -> Data:
        """Add a piece; returns its event."""
        if self.kind in _CALLS:
            delta = self._add_to_call(block)
        else:
            name = _TEXTS[self.kind]
            piece = str(block.get(name) or "")
            self.content[name] += piece
            delta = {"type": f"{self.kind}-delta", name: piece}
        return {"event": "content-block-delta", "index": self.index, "delta": delta}

    def _add_to_call(self, block: Data) -> Data:
        """Add a piece of a call; the delta has the arguments so far, for clients of any version."""
        for name in ("id", "name"):
            self.content[name] = block.get(name) or self.content[name]
        self.content["args"] += block.get("args") or ""
        return {"type": "block-delta", "fields": {**self.content}}

    def rest_of(self, text: str) -> str | None:
        """What a text has beyond the block's; None if it doesn't begin with that."""
        said = self.content.get("text") if self.kind == "text" else None
        return text[len(said) :] if said is not None and text.startswith(said) else None

    def finish(self) -> Data:
        """The event that closes it, with the whole content."""
        content = self.content if self.kind in _TEXTS else self._whole_call()
        return {"event": "content-block-finish", "index": self.index, "content": content}

    def _whole_call(self) -> Data:
        shown = {"id": self.content["id"], "name": self.content["name"]}
        try:
            args = msgspec.json.decode(self.content["args"] or "{}")
        except (msgspec.MsgspecError, RecursionError) as error:
            args = str(error)
        if isinstance(args, dict):
            return {"type": _CALLS[self.kind], **shown, "args": args}
        error = args if isinstance(args, str) else "the arguments are not an object"
        return {
            "type": "invalid_tool_call", **shown, "args": self.content["args"], "error": error,
        }  # fmt: skip


class _OpenMessage:
    """A message that may continue."""

    def __init__(self, identifier: str, node: str, task: str) -> None:
        self.identifier = identifier
        self.node = node
        self.task = task
        self.usage: Data = {}
        self._blocks = 0
        self._block: _OpenBlock | None = None

    def add(self, block: Data) -> Iterator[Data]:
        """Add a piece or a whole block."""
        if self._block is not None and not self._block.continues(block):
            yield from self.end_block()
        if block["type"] not in _TEXTS and block["type"] not in _CALLS:
            shown = {"index": self._next(), "content": to_plain(block)}
            yield {"event": "content-block-start", **shown}
            yield {"event": "content-block-finish", **shown}
            return
        if self._block is None:
            self._block = _OpenBlock(self._next(), block)
            yield self._block.start()
        yield self._block.add(block)

    def rest_of(self, text: str) -> str | None:
        """What a whole text has beyond this message's; None if that isn't the text's beginning."""
        if self._block is None or self._blocks != 1:
            return None if self._blocks else text
        return self._block.rest_of(text)

    def complete(self, rest: str) -> Iterator[Data]:
        """Add the rest of the text, and end the message."""
        if rest:
            place = {} if self._block is None else {"index": self._block.place}
            yield from self.add({"type": "text", "text": rest, **place})
        yield from self.finish()

    def _next(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def end_block(self) -> Iterator[Data]:
        """End the block that is open."""
        block, self._block = self._block, None
        if block is not None:
            yield block.finish()

    def count(self, usage: Mapping[str, Any]) -> None:
        """Add the tokens of a piece."""
        counted = {name: self.usage.get(name, 0) + (usage.get(name) or 0) for name in _TOKENS}
        self.usage = {**self.usage, **usage, **counted}

    def finish(self) -> Iterator[Data]:
        """End the message."""
        yield from self.end_block()
        usage = {"usage": to_plain(self.usage)} if self.usage else {}
        yield {"event": "message-finish", **usage}


class MessageEvents:
    """The messages of one run. Each method returns events, `(namespace, node, data)`."""

    def __init__(self) -> None:
        self._open: dict[tuple[Namespace, str], _OpenMessage] = {}
        self._attempts = MessageAttempts()

    def begin_attempt(self, task: str | None) -> list[tuple[Namespace, str, Data]]:
        """Break off the messages of a task that begins anew; None: note that the run does."""
        if task is None:
            self._attempts.begin_run()
            return []
        return self._break_off(self._attempts.begin_task(task), BROKEN_OFF)

    def add(
        self, namespace: Namespace, message: Any, metadata: Mapping[str, Any]
    ) -> list[tuple[Namespace, str, Data]]:
        """Add a piece of a message, or a whole one."""
        task = str(metadata.get("langgraph_checkpoint_ns", "")).rpartition(":")[2]
        node = str(metadata.get("langgraph_node", ""))
        identifier = str(getattr(message, "id", None) or f"message-{task}")
        found = self._break_off(self._attempts.note(identifier, metadata), BROKEN_OFF)
        open_message = self._open.get((namespace, identifier))
        if open_message is None:
            if len(self._open) >= OPEN_MAX:
                found += self._finish(next(iter(self._open)))
            open_message = _OpenMessage(identifier, node, task)
            self._open[namespace, identifier] = open_message
            start = {"event": "message-start", **_beginning(message, metadata, node)}
            found.append(_shown(namespace, open_message, start))
        for block in blocks_of(message):
            found += [_shown(namespace, open_message, data) for data in open_message.add(block)]
        if usage := getattr(message, "usage_metadata", None):
            open_message.count(cast("Mapping[str, Any]", usage))
        is_piece = type(message).__name__.endswith("Chunk")
        if not is_piece or getattr(message, "chunk_position", None) == "last":
            found += self._finish((namespace, identifier))
        return found

    def end_missed(self, namespace: Namespace, state: Any) -> list[tuple[Namespace, str, Data]]:
        """Complete and finish the messages that a state has, the one behind missed events.

        Their tasks have ended and don't write again; the last pieces may be among the missed.
        Messages of other content than text stay as they are.

        Args:
            state: as `to_plain` returns it.
        """
        texts = dict(_texts_in(state)) if self._open else {}
        found: list[tuple[Namespace, str, Data]] = []
        for key in list(self._open):
            text = texts.get(key[1]) if key[0] == namespace else None
            rest = None if text is None else self._open[key].rest_of(text)
            if rest is not None:
                message = self._open.pop(key)
                found += [_shown(namespace, message, data) for data in message.complete(rest)]
        return found

    def end_task(self, namespace: Namespace, task: str) -> list[tuple[Namespace, str, Data]]:
        """Finish the messages of a task that has ended."""
        ended = [key for key, one in self._open.items() if key[0] == namespace and one.task == task]
        return [event for key in ended for event in self._finish(key)]

    def end_all(self, error: str | None) -> list[tuple[Namespace, str, Data]]:
        """Finish all messages at the run's end, with its error if it failed."""
        if error is None:
            return [event for key in list(self._open) for event in self._finish(key)]
        return self._break_off([one.identifier for one in self._open.values()], error)

    def _break_off(self, ids: Sequence[str], why: str) -> list[tuple[Namespace, str, Data]]:
        """End messages that aren't whole, of those with these ids."""
        ended = [key for key in self._open if key[1] in ids] if ids else []
        gone = [(key[0], self._open.pop(key)) for key in ended]
        return [_shown(place, one, {"event": "error", "message": why}) for place, one in gone]

    def _finish(self, key: tuple[Namespace, str]) -> list[tuple[Namespace, str, Data]]:
        message = self._open.pop(key)
        return [_shown(key[0], message, data) for data in message.finish()]


def _shown(namespace: Namespace, message: _OpenMessage, data: Data) -> tuple[Namespace, str, Data]:
    """Name the message in its event: clients distinguish messages of one node by `run_id`."""
    known = message.identifier
    return namespace, message.node, {**data, "id": known, "run_id": known}


def _texts_in(state: Any) -> Iterator[tuple[str, str]]:
    """Find the messages of text in a state's lists: ids and texts."""
    fields = cast("Mapping[str, Any]", state).values() if isinstance(state, dict) else ()
    for field in fields:
        for item in cast("list[Any]", field) if isinstance(field, list) else ():
            match item:
                case {"id": str(identifier), "content": str(text)}:
                    yield identifier, text
                case _:
                    pass


def _beginning(message: Any, metadata: Mapping[str, Any], node: str) -> Data:
    shown: Data = {"role": _ROLES.get(str(getattr(message, "type", "")).lower(), "ai")}
    known = {
        "langgraph_node": node,
        "provider": metadata.get("ls_provider"),
        "model": metadata.get("ls_model_name"),
    }
    shown["metadata"] = to_plain({name: text for name, text in known.items() if text})
    if (call := getattr(message, "tool_call_id", None)) is not None:
        shown["tool_call_id"] = str(call)
    return shown


def blocks_of(message: Any) -> list[Data]:
    """Return the content blocks of a message or of a piece of one, its tool calls among them."""
    content = getattr(message, "content", "")
    calls = getattr(message, "tool_call_chunks", None) or getattr(message, "tool_calls", None)
    refused = getattr(message, "invalid_tool_calls", None)
    if isinstance(content, str) and not calls and not refused:
        return [{"type": "text", "text": content}] if content else []
    known: Any = getattr(message, "content_blocks", None)  # LangChain's, the same of each provider
    if known is not None:
        return [_block_of(block) for block in known]
    parts: list[Any] = [content] if isinstance(content, str) else list(content)
    blocks = [_block_of(part) for part in parts if part]
    found = [block for block in blocks if block["type"] not in _OF_CALLS]
    found += [{"type": "tool_call", **call} for call in calls or ()]
    return found + [{"type": "invalid_tool_call", **call} for call in refused or ()]


def _block_of(part: Any) -> Data:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    block = cast("Data", part) if isinstance(part, dict) else {"value": part}
    if isinstance(block.get("type"), str):
        return block
    return {"type": "non_standard", "value": block}
