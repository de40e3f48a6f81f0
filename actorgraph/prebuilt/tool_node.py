"""ToolNode: runs the tools that a model's last message calls, all at once."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import anyio.from_thread
import anyio.to_thread

from actorgraph.api.blocking import block_on
from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt import tool_outputs
from actorgraph.prebuilt.at_once import all_at_once
from actorgraph.prebuilt.chat import last_ai, messages_of, tool_calls_of, tool_message
from actorgraph.prebuilt.injected import ToolRuntime
from actorgraph.prebuilt.langchain import tell_langchain
from actorgraph.prebuilt.tool_arguments import fill
from actorgraph.prebuilt.tool_errors import (
    Handling,
    InvalidArguments,
    answer_to,
    default_handling,
    handled_types,
    invocation_error,
)
from actorgraph.prebuilt.tool_events import events_of, runtime_of, state_now
from actorgraph.prebuilt.tools import Tool, tool_of
from actorgraph.runtime.calls import thread_limiter
from actorgraph.runtime.interop import is_control_flow
from actorgraph.values.invalid_resumes import is_invalid_resume

WITH_CONTEXT = "tool_call_with_context"


@dataclass
class ToolCallRequest:
    """One call of a tool, as a `wrap_tool_call` function sees it.

    Attributes:
        tool_call: `{"name", "args", "id"}` as the model asked.
        tool: the tool; None if the node has none of that name.
        state: what the node was given.
        runtime: what tools can ask for.
    """

    tool_call: dict[str, Any]
    tool: Any
    state: Any
    runtime: ToolRuntime[Any, Any]

    def override(self, **changes: Any) -> "ToolCallRequest":
        """A request with some fields replaced; this one stays."""
        return replace(self, **changes)


Execute = Callable[[ToolCallRequest], Any]
Wrap = Callable[[ToolCallRequest, Execute], Any]
AsyncWrap = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Any]]], Awaitable[Any]]


class ToolNode:
    """A node that runs the tools which a model's last message calls.

    It takes a state with messages, a list of messages, a list of calls, or one call with a
    state (`{"__type": "tool_call_with_context", "tool_call", "state"}`, what a Send carries).
    It returns ToolMessages in the order of the calls, in the form that it was given; with
    Commands among the results, a list of updates and Commands.

    Args:
        tools: functions, sync (run in worker threads) or async, or LangChain tools.
        name: the node's name.
        tags: kept for tracing.
        handle_tool_errors: what a failure becomes. Default: arguments that don't fit are told
            to the model, what a tool raises fails the node. True: everything is told to the
            model; a text: that is told; exceptions: those are told; a function: it gives the
            text, for the exceptions by which its parameter is annotated; False: nothing is.
            Interrupts, and answers that an interrupt's schema refuses, always pass.
        messages_key: where the state has its messages.
        wrap_tool_call: `wrap(request, execute)` is called in the place of each call; `execute`
            may be called any number of times.
        awrap_tool_call: the same, async; preferred to the sync one.
    Raises:
        GraphBuildError: what is passed for a tool is none.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        *,
        name: str = "tools",
        tags: list[str] | None = None,
        handle_tool_errors: Handling = default_handling,
        messages_key: str = "messages",
        wrap_tool_call: Wrap | None = None,
        awrap_tool_call: AsyncWrap | None = None,
    ) -> None:
        tell_langchain()
        handled_types(handle_tool_errors)
        made = [tool_of(tool) for tool in tools]
        self.name = name
        self.tags = tags
        self._tools = {tool.name: tool for tool in made}
        self._given = {tool.name: _as_given(tool) for tool in made}
        self._handling = handle_tool_errors
        self._key = messages_key
        self._wrap = wrap_tool_call
        self._awrap = awrap_tool_call

    @property
    def tools_by_name(self) -> dict[str, Any]:
        """The tools: LangChain's as they were given, functions as `Tool`s."""
        return self._given

    @property
    def uses_state(self) -> bool:
        """Whether a tool, or a wrapper of calls, may look at the state."""
        wrapped = self._wrap is not None or self._awrap is not None
        return wrapped or any(t.needs.state or t.needs.runtime for t in self._tools.values())

    async def __call__(self, state: Any) -> Any:
        """`ainvoke`."""
        return await self.ainvoke(state)

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """`ainvoke`, blocking."""
        return block_on("ainvoke", partial(self.ainvoke, input, config))

    async def ainvoke(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Run the called tools at once.

        Returns: the update; see the class.
        Raises:
            InvalidUpdateError: there is no model's message, or a result can't be used.
            GraphInterrupt: tools asked questions; those that run beside them finish first.
            Exception: what a tool raised and `handle_tool_errors` doesn't take.
        """
        calls, state, like = self._parsed(input)
        listed = isinstance(input, list) and not _are_calls(input)
        requests = [self._request(call, state, config) for call in calls]
        works = [partial(self._one, request, like, listed=listed) for request in requests]
        outcomes = [await works[0]()] if len(works) == 1 else await all_at_once(works, calls)
        return tool_outputs.combined(outcomes, key=self._key, listed=listed)

    def _parsed(self, given: Any) -> tuple[list[dict[str, Any]], Any, Any]:
        """The calls, the state, and a message whose family the answers are of."""
        if isinstance(given, Mapping) and given.get("__type") == WITH_CONTEXT:
            state = given["state"]
            return [given["tool_call"]], state, last_ai(messages_of(state, self._key))
        if _are_calls(given):
            state = state_now()
            like = last_ai(messages_of(state, self._key))
            return cast("list[dict[str, Any]]", given), state, like
        messages = messages_of(given, self._key)
        message = last_ai(messages)
        if message is None:
            what = "No AIMessage found in input" if messages else "No message found in input"
            raise InvalidUpdateError(
                f"{what} of node {self.name!r}",
                do=f"give it a state whose {self._key!r} has the model's message with its calls",
            )
        return tool_calls_of(message), given, message

    def _request(
        self, call: dict[str, Any], state: Any, config: Mapping[str, Any] | None
    ) -> ToolCallRequest:
        runtime = runtime_of(call, state, config, list(self._given.values()))
        return ToolCallRequest(call, self._given.get(call["name"]), state, runtime)

    async def _one(self, request: ToolCallRequest, like: Any, *, listed: bool) -> Any:
        """One call: through the program's wrapper, if there is one."""
        execute = partial(self._execute, like=like, listed=listed)
        if self._awrap is None and self._wrap is None:
            return await execute(request)
        try:
            if self._awrap is not None:
                return await self._awrap(request, execute)
            work = partial(_wrapped, cast("Wrap", self._wrap), request, execute)
            return await anyio.to_thread.run_sync(work, limiter=thread_limiter())
        except Exception as error:  # noqa: BLE001 - the program has said what counts as an answer
            return self._answer(error, request.tool_call, like)

    async def _execute(self, request: ToolCallRequest, *, like: Any, listed: bool) -> Any:
        call, events = request.tool_call, events_of(request.tool_call, request.runtime)
        tool = self._tools.get(call["name"])
        if request.tool is not None and request.tool is not self._given.get(call["name"]):
            tool = tool_of(request.tool)  # put in by a wrapper
        if tool is None:
            names = ", ".join(self._tools)
            text = f"Error: {call['name']} is not a valid tool, try one of [{names}]."
            return tool_message(like, call, text, error=True)
        events.started()
        try:
            filled = fill(tool.needs, call, request.state, request.runtime, self._key)
            try:
                around = like if isinstance(tool, Tool) else request.runtime.config
                response = await tool.call(call, filled, around)
            except Exception as error:
                if not _is_validation(error):
                    raise
                raise invocation_error(call, error, tool.needs.hidden) from error
            result = tool_outputs.checked(response, call, key=self._key, listed=listed)
        except Exception as error:  # noqa: BLE001 - the same
            events.failed(error)
            return self._answer(error, call, like)
        events.finished(result)
        return result

    def _answer(self, error: Exception, call: Mapping[str, Any], like: Any) -> Any:
        """What the model is told of a failure; raises it if the node shall fail."""
        passes = is_invalid_resume(error) or is_control_flow(error)
        text = None if passes else answer_to(error, self._handling)
        if text is None:
            raise error
        return tool_message(like, call, text, error=True)


def _wrapped(
    wrap: Wrap, request: ToolCallRequest, execute: Callable[..., Coroutine[Any, Any, Any]]
) -> Any:
    """A sync wrapper in its worker thread; what it executes runs on the event loop."""
    return wrap(request, lambda again: anyio.from_thread.run(execute, again))


def _are_calls(given: Any) -> bool:
    last: Any = given[-1] if isinstance(given, list) and given else None
    return isinstance(last, dict) and last.get("type") == "tool_call"


def _as_given(tool: Any) -> Any:
    return getattr(tool, "given", tool)


def _is_validation(error: Exception) -> bool:
    """Whether arguments didn't fit: by our check, or by pydantic's in a LangChain tool."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return (isinstance(error, InvalidArguments) or "ValidationError" in kinds) and not (
        is_invalid_resume(error)
    )
