"""ChatCompletions: a chat model at an address that speaks OpenAI's Chat Completions.

Transient failures are tried again here as long as nothing of the answer has been sent on; after
that only the node's `retry_policy` may, because readers have seen a part
(docs/decisions/0132-packaging-and-a-model-by-its-address.md).
"""

import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
import msgspec

from actorgraph.errors import GraphBuildError, ModelUnavailableError, OutsideRunError
from actorgraph.internals import converted, retry_after, seconds_of
from actorgraph.prebuilt.chat_messages import message_module
from actorgraph.prebuilt.completion_format import CompletionParts, message_json, tool_json
from actorgraph.prebuilt.completion_requests import ModelServer, message_of
from actorgraph.streams import get_message_writer

OPENAI_URL = "https://api.openai.com/v1"
FIRST_WAIT_S = 0.5
"""Before the second attempt; doubled for each further one."""

WAIT_MAX_S = 60.0
"""A server that asks for a longer wait gets no further attempt here: the node's policy may wait."""


class ChatCompletions:
    """A chat model at an OpenAI-compatible address; for `create_react_agent`, or in a node.

    `await model.ainvoke(messages)` returns the model's message; in a node, the readers of
    `stream_mode="messages"` get its text as it arrives. Needs the extra `openai` (httpx).

    Args:
        model: its name at the server; default: the environment's OPENAI_MODEL.
        base_url: up to `/v1`; default: OPENAI_BASE_URL, or OpenAI's.
        api_key: sent as a bearer token, without white space around it; default: OPENAI_API_KEY.
            "" sends none.
        timeout_s: seconds to wait for the next bytes. Default 60.
        attempts_max: calls at most per answer: after connection failures, 408, 409, 429 and 5xx,
            not before the server's `Retry-After`. Default 3.
        client: an open `httpx.AsyncClient` of the program, which keeps connections open between
            calls; its timeouts apply. Default: one per call.
        parameters: further fields of the request, such as `temperature`.
    Raises:
        GraphBuildError: the model has no name, or an argument is invalid.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        attempts_max: int = 3,
        client: Any = None,
        **parameters: Any,
    ) -> None:
        name = model or os.environ.get("OPENAI_MODEL")
        if not name:
            raise GraphBuildError(
                "ChatCompletions needs the name of a model",
                do='pass one, e.g. ChatCompletions("gpt-5-mini"), or set OPENAI_MODEL',
            )
        url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise GraphBuildError(
                "base_url must be an http or https address without a user or a password, got "
                f"{url.rpartition('@')[2]!r}",
                do='pass one such as "http://127.0.0.1:8080/v1", and the password as api_key=, or '
                "with client=httpx.AsyncClient(auth=...)",
            )
        if attempts_max < 1 or seconds_of(timeout_s) is None:
            raise GraphBuildError(
                f"attempts_max must be >= 1, timeout_s > 0, got {attempts_max!r}, {timeout_s!r}",
                do="leave them out for 3 attempts of 60 seconds",
            )
        key = (os.environ.get("OPENAI_API_KEY", "") if api_key is None else api_key).strip()
        if not (key.isascii() and key.isprintable()):
            raise GraphBuildError(
                "api_key has characters that an HTTP header can't have; it isn't shown here",
                do="copy the key again: letters, digits and signs of ASCII, in one line",
            )
        self.model = name
        self._server = ModelServer(
            url=url,
            model=name,
            key=key,
            timeout_s=timeout_s,
            client=client,
        )
        self._attempts_max = attempts_max
        self._parameters = parameters

    def __repr__(self) -> str:
        return f"<ChatCompletions {self.model!r} at {self._server.url}>"

    def bind_tools(self, tools: Sequence[Any], **parameters: Any) -> Self:
        """Return a copy that offers these tools to the model.

        Args:
            tools: functions, LangChain tools, or dicts of the protocol.
            parameters: further fields of the request, such as `tool_choice`.
        """
        offered = {"tools": [tool_json(tool) for tool in tools]}
        return type(self)(
            self.model,
            base_url=self._server.url,
            api_key=self._server.key,
            timeout_s=self._server.timeout_s,
            attempts_max=self._attempts_max,
            client=self._server.client,
            **{**self._parameters, **offered, **parameters},
        )

    async def ainvoke(self, messages: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Send a conversation; returns the model's message.

        Args:
            messages: a text, a message, or a list of them in any form that `add_messages` takes.
            config: not used; agents pass it to every model.
        Raises:
            ModelUnavailableError: no answer after all attempts, or it broke off.
            ModelError: the server refuses the request, or the answer isn't of the protocol.
            MissingExtraError: httpx isn't installed.
        """
        del config
        conversation = converted(messages)
        body = {
            "model": self.model,
            "messages": [message_json(message) for message in conversation],
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._parameters,
        }
        call = _CompletionCall(self._server, message_module(conversation))
        for attempt in range(1, self._attempts_max + 1):
            try:
                return await call.answer(msgspec.json.encode(body))
            except ModelUnavailableError as error:
                wait = _wait_s(error, attempt)
                if attempt == self._attempts_max or call.began or wait > WAIT_MAX_S:
                    raise
            await anyio.sleep(wait)
        raise AssertionError


class _CompletionCall:
    """One call of a model, over its attempts; `began`: a part of the answer has been sent on."""

    def __init__(self, server: ModelServer, module: Any) -> None:
        self._server = server
        self._module = module
        self._id = f"chat-{uuid4()}"  # servers may repeat theirs, and add_messages would replace
        self.began = False
        try:
            self._writer = get_message_writer()
        except OutsideRunError:
            self._writer = None

    async def answer(self, body: bytes) -> Any:
        """Send the request and pass on what arrives; returns the whole message."""
        parts = CompletionParts()
        async with aclosing(self._server.answers(body)) as answers:
            async for data in answers:
                if not isinstance(data, dict) or data.get("error") is not None:
                    raise self._server.unavailable(f"error in the answer: {message_of(data)}")
                if text := self._text_of(data, parts):
                    self.began = True
                    await self._send(content=text)
        if "finish_reason" not in parts.metadata:
            raise self._server.unavailable("the answer ended early, without a finish_reason")
        try:
            fields = parts.fields()
        except ValueError as error:
            raise self._server.unavailable(f"the model {error}") from error
        if self.began:
            await self._send(content="", **fields)
        return self._module.AIMessage(content=parts.text, id=self._id, **fields)

    def _text_of(self, data: dict[str, Any], parts: CompletionParts) -> str:
        try:
            return parts.add(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._server.unavailable("the answer isn't of the protocol") from error

    async def _send(self, **fields: Any) -> None:
        if self._writer is not None:
            await self._writer.pass_on(self._module.AIMessageChunk(id=self._id, **fields))


def _wait_s(error: ModelUnavailableError, attempt: int) -> float:
    """Return the seconds before the next attempt: at least what the server asks for."""
    # Spread, so that many runs don't come back at once.
    own = FIRST_WAIT_S * 2 ** (attempt - 1) * random.uniform(0.75, 1.0)  # noqa: S311 - no secret
    return max(retry_after(error, time.time()) or 0.0, own)
