"""A chat model that plays a script, and the log of what programs did.

The reply depends on the prompt alone, so that a program that was killed goes on where it was:
the last human message names a scene of the script, and the model's own messages since then
number the reply. Ids follow from both: `alice.add.0`, its first tool call `alice.add.0.0`.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

Reply = str | dict[str, Any] | list[dict[str, Any]] | Callable[[list[BaseMessage]], Any]
"""A text, a tool call, several of them, or a function of the prompt that returns one of these."""


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool call as a reply."""
    return {"name": tool, "args": arguments}


class Log:
    """Lines that survive `kill -9`: `did LABEL`, `ack LABEL` ..."""

    file: int | None = None

    def open(self, path: str) -> None:
        """Add lines to a file from now on."""
        self.file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def write(self, what: str, label: str) -> None:
        """Add a line, on the disk when this returns."""
        if self.file is not None:
            os.write(self.file, f"{what} {label}\n".encode())
            os.fsync(self.file)


LOG = Log()


def did(label: str) -> None:
    """Note a side effect."""
    LOG.write("did", label)


class ScriptedModel(BaseChatModel):
    """Plays the scenes of a script.

    Attributes:
        label: begins the ids of its messages.
        scenes: the first word of the last human message, in lower case -> replies in their order.
            "*" is taken for a word without a scene.
        streams: whether it sends each word by itself.
    """

    label: str
    scenes: dict[str, list[Any]]
    streams: bool = False
    bound: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> "ScriptedModel":
        """Return a model that knows the names of its tools."""
        names = [str(getattr(tool, "name", None) or _name_of(tool)) for tool in tools]
        return self.model_copy(update={"bound": tuple(names)})

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        last = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
        words = re.findall(r"[a-z0-9]+", messages[last].text.lower())
        scene = words[0] if words and words[0] in self.scenes else "*"
        begun = f"{self.label}.{'-'.join(words[:3])}"
        since = messages[last:]
        turn = sum(isinstance(m, AIMessage) and str(m.id).startswith(begun) for m in since)
        reply = self.scenes[scene][turn]
        reply = reply(messages) if callable(reply) else reply
        identity = f"{begun}.{turn}"
        did(identity)
        if isinstance(reply, str):
            return AIMessage(reply, id=identity)
        calls = reply if isinstance(reply, list) else [reply]
        made = [
            {"id": f"{identity}.{i}", **one, "type": "tool_call"} for i, one in enumerate(calls)
        ]
        return AIMessage("", id=identity, tool_calls=made)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> ChatResult:
        await asyncio.sleep(0)
        return self._generate(messages)

    def _stream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        manager = options.get("run_manager") or (args[1] if len(args) > 1 else None)
        for part in _parts(self._reply(messages)):
            if manager is not None and part.text:
                manager.on_llm_new_token(part.text, chunk=part)
            yield part

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        manager = options.get("run_manager") or (args[1] if len(args) > 1 else None)
        for part in _parts(self._reply(messages)):
            if manager is not None and part.text:
                await manager.on_llm_new_token(part.text, chunk=part)
            yield part


def _name_of(tool: Any) -> str:
    if isinstance(tool, dict):
        return tool.get("name") or tool.get("function", {}).get("name", "?")
    return getattr(tool, "__name__", "?")


def _parts(reply: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Cut a reply into words; a tool call goes as a whole."""
    words = re.findall(r"\S+\s*", reply.text)
    for word in words:
        yield ChatGenerationChunk(message=AIMessageChunk(word, id=reply.id))
    chunks = [
        {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": i}
        for i, c in enumerate(reply.tool_calls)
    ]
    if chunks or not words:
        message = AIMessageChunk("", id=reply.id, tool_call_chunks=chunks)
        yield ChatGenerationChunk(message=message)
