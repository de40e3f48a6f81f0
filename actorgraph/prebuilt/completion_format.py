"""The JSON of OpenAI's Chat Completions: messages and tools to send, answers and their chunks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from actorgraph.prebuilt.chat_messages import kind_of, tool_calls_of
from actorgraph.prebuilt.shown_tools import arguments_schema
from actorgraph.prebuilt.tools import ForeignTool, tool_of

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


def message_json(message: Any) -> dict[str, Any]:
    """Make the JSON of a message of a conversation.

    Args:
        message: of this library or of LangChain. A content of blocks is sent as it is.
    """
    made: dict[str, Any] = {"role": ROLES[kind_of(message)], "content": message.content}
    if getattr(message, "name", None) and made["role"] == "user":
        made["name"] = message.name
    if made["role"] == "tool":
        made["tool_call_id"] = message.tool_call_id
    if calls := tool_calls_of(message):
        made["content"] = message.content or None
        made["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": msgspec.json.encode(call["args"]).decode(),
                },
            }
            for call in calls
        ]
    return made


def tool_json(given: Any) -> dict[str, Any]:
    """Make the JSON of a tool: a function, a LangChain tool, or a dict that is sent as it is."""
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    tool = tool_of(given)
    described = tool.given if isinstance(tool, ForeignTool) else tool
    function = {"name": tool.name, "parameters": arguments_schema(tool)}
    if described.description:
        function["description"] = described.description
    return {"type": "function", "function": function}


@dataclass(slots=True)
class CompletionParts:
    """The parts of an answer that have arrived.

    Attributes:
        text: the content.
        calls: index -> id, name and arguments (JSON) of a tool call.
        usage: the numbers of tokens, as the server gives them.
        metadata: `finish_reason`, `model_name` and the server's `id`.
    """

    text: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, data: Mapping[str, Any]) -> str:
        """Add a chunk of a stream, or a whole answer; returns the text that came with it."""
        self.usage.update(data.get("usage") or {})
        named = {"model_name": data.get("model"), "id": data.get("id")}
        self.metadata.update({name: value for name, value in named.items() if value})
        choice = next(iter(data.get("choices") or ()), {})
        if choice.get("finish_reason"):
            self.metadata["finish_reason"] = choice["finish_reason"]
        came = choice.get("delta") or choice.get("message") or {}
        self._add_calls(came.get("tool_calls") or ())
        text = came.get("content") or ""
        self.text += text
        return text

    def _add_calls(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        """Join the pieces of tool calls: id and name come once, the arguments in many pieces."""
        for position, piece in enumerate(pieces):
            call = self.calls.setdefault(piece.get("index", position), ["", "", ""])
            function = piece.get("function") or {}
            call[0] = call[0] or piece.get("id") or ""
            call[1] = call[1] or function.get("name") or ""
            call[2] += function.get("arguments") or ""

    def fields(self) -> dict[str, Any]:
        """Return the fields of the model's message, but its content and its id.

        Raises:
            ValueError: the arguments of a call are not a JSON object; names the tool.
        """
        made: dict[str, Any] = {"response_metadata": self.metadata}
        made["tool_calls"] = [
            {"name": name, "args": _object(name, given), "id": called, "type": "tool_call"}
            for _, (called, name, given) in sorted(self.calls.items())
        ]
        if self.usage:
            sent, got = self.usage.get("prompt_tokens", 0), self.usage.get("completion_tokens", 0)
            total = self.usage.get("total_tokens", sent + got)
            made["usage_metadata"] = {
                "input_tokens": sent,
                "output_tokens": got,
                "total_tokens": total,
            }
        return made


def _object(name: str, given: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(given or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        what = f"called tool {name!r} with arguments that are not a JSON object: {given[:200]!r}"
        raise ValueError(what) from error
