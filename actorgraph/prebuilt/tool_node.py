"""ToolNode: runs the tools that a model's last message calls, concurrently."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import anyio
import anyio.from_thread

from actorgraph.errors import GraphInterrupt, InvalidUpdateError, SchemaMismatchError
from actorgraph.internals import (
    BRIDGE,
    CURRENT,
    OperationSpan,
    TaskScope,
    adopt_questions,
    block_on,
    call_plain,
    check_call_ids,
    declare,
    interrupt_id,
    is_foreign_control_flow,
    lost_tool_advice,
    run_together,
    stepper_here,
    steps_here,
    translated,
    types_in,
)
from actorgraph.prebuilt.chat_messages import last_ai, messages_of, tool_calls_of, tool_message
from actorgraph.prebuilt.tool_attempts import (
    ToolPolicies,
    ToolRetries,
    ToolTimeouts,
    kept_result,
    result_key,
)
from actorgraph.prebuilt.tool_events import current_state, events_of, tool_runtime_of
from actorgraph.prebuilt.tool_results import (
    INVALID_TOOL_NAME_ERROR_TEMPLATE,
    Handling,
    InvalidArguments,
    InvalidInjected,
    check_output,
    combine_outputs,
    default_handling,
    error_reply,
    handled_types,
    invocation_error,
)
from actorgraph.prebuilt.tools import (
    Tool,
    ToolRuntime,
    fill_injected,
    tool_of,
    types_of_tool,
)
from actorgraph.types import is_invalid_resume

Work = Callable[[], Coroutine[Any, Any, Any]]


async def run_concurrently(works: Sequence[Work], calls: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Run tool calls concurrently, each as a part of the task; returns results in call order.

    The result of a call that has ended is kept while others go on: when the task runs again, after
    a question, an error or a crash, that call doesn't. An interrupt in one call doesn't cancel the
    others.

    Args:
        works: one per call.
        calls: the calls; the `id` keeps the interrupts of each apart from those of the others.
    Raises:
        GraphInterrupt: some calls were interrupted, and the others have finished.
        BaseException: the first failure, unwrapped; it cancels the others.
    """
    whole = CURRENT.get(None)
    parts: list[TaskScope] = [] if whole is None else whole.split([str(c["id"]) for c in calls])
    results: list[Any] = [None] * len(works)
    questions: dict[int, Any] = {}
    returned: set[int] = set()

    async def one(index: int) -> None:
        if parts:
            CURRENT.set(parts[index])
        try:
            is_last = partial(_is_last, returned, index, len(works))
            results[index] = await kept_result(index, calls[index], works[index], is_last)
            returned.add(index)
        except (GraphInterrupt, Exception) as error:
            asked = translated(error)
            if not isinstance(asked, GraphInterrupt):
                raise
            if parts:  # a question raised by hand gets its number among those of its call
                adopt_questions(parts[index], asked)
                asked = GraphInterrupt(parts[index].raised)
            questions[index] = asked

    try:
        await _run_all([partial(one, index) for index in range(len(works))])
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    if whole is not None:
        whole.join(parts)
    if questions:
        raise GraphInterrupt(
            [i for _, asked in sorted(questions.items()) for i in asked.interrupts]
        )
    return results


async def _run_all(functions: Sequence[Work]) -> None:
    if steps_here():
        await run_together(functions)
        return
    async with anyio.create_task_group() as group:
        for function in functions:
            group.start_soon(function)


def _is_last(returned: set[int], index: int, count: int) -> bool:
    return len(returned | {index}) == count


WITH_CONTEXT = "tool_call_with_context"


@dataclass
class ToolCallRequest:
    """One tool call, as passed to `wrap_tool_call`.

    Attributes:
        tool_call: `{"name", "args", "id"}` of the model's message.
        tool: the tool; None if the node has none of that name.
        state: the state that the node was given.
        runtime: the values that tools can have injected.
    """

    tool_call: dict[str, Any]
    tool: Any
    state: Any
    runtime: ToolRuntime[Any, Any]

    def override(self, **changes: Any) -> "ToolCallRequest":
        """Copy the request with some fields replaced.

        A new `state` is the `runtime`'s too: a tool that reads either sees what the wrapper
        decided that it may see.
        """
        changed = replace(self, **changes)
        # None or a stand-in outside of a graph has no state to replace.
        if "state" in changes and isinstance(changed.runtime, ToolRuntime):
            changed.runtime = replace(changed.runtime, state=changed.state)
        return changed


Execute = Callable[[ToolCallRequest], Any]
Wrap = Callable[[ToolCallRequest, Execute], Any]
AsyncWrap = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Awaitable[Any]]], Awaitable[Any]]


class ToolNode:
    """A node that runs the tools which a model's last message calls, concurrently.

    The input is a state with messages, a list of messages, a list of calls, or one call with a
    state (`{"__type": "tool_call_with_context", "tool_call", "state"}`, as in a Send).
    The output is ToolMessages in the order of the calls, as a state or a list like the input; with
    Commands among the results, a list of updates and Commands.

    Args:
        tools: functions, sync (run in worker threads) or async, or LangChain tools.
        name: the node's name.
        tags: for tracing.
        handle_tool_errors: which failures become a reply to the model; all others fail the node.
            Default: invalid arguments only. True: all. A text: all, with this reply. An exception
            type or a tuple of them: these. A function: returns the reply, for the exceptions in
            its parameter's annotation. False: none. Interrupts, resume values that an interrupt's
            schema refuses, and injected values that are missing or that a tool refuses, are
            never replied to.
        messages_key: key of the messages in the state.
        wrap_tool_call: `wrap(request, execute)`, called instead of each call; `execute` may be
            called any number of times.
        awrap_tool_call: the same, async; preferred to the sync one.
        timeout: seconds, or a timedelta, that an attempt of a call may take, or a dict of tools'
            names with these; only for async tools. Default: no limit.
        retry_policy: when a call that failed is made again, or a dict of tools' names with these;
            `handle_tool_errors` gets the last error. Default: never.
    Raises:
        GraphBuildError: one of `tools` is not a tool, or a policy doesn't fit one.
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
        timeout: ToolTimeouts = None,
        retry_policy: ToolRetries = None,
    ) -> None:
        BRIDGE.mark_tools()
        handled_types(handle_tool_errors)
        made = [tool_of(tool) for tool in tools]
        for tool in made:
            declare(types_in(types_of_tool(tool)))  # its arguments and results may be stored
        self.name = name
        self.tags = tags
        self._tools = {tool.name: tool for tool in made}
        self._given = {tool.name: _as_given(tool) for tool in made}
        self._handling = handle_tool_errors
        self._key = messages_key
        self._wrap = wrap_tool_call
        self._awrap = awrap_tool_call
        stops = {tool.name: not tool.is_plain(blocking=False) for tool in made}
        self._policies = ToolPolicies(f"node {name!r}", stops, timeout, retry_policy)

    @property
    def tools_by_name(self) -> dict[str, Any]:
        """Name -> tool: LangChain's as they were given, functions as `Tool`s."""
        return self._given

    @property
    def uses_state(self) -> bool:
        """Whether a tool or a wrapper of calls may read the state."""
        wrapped = self._wrap is not None or self._awrap is not None
        return wrapped or any(t.injected.state or t.injected.runtime for t in self._tools.values())

    async def __call__(self, state: Any) -> Any:
        """Run the called tools; see `ainvoke`."""
        return await self.ainvoke(state)

    def unknown_calls(self, input_value: Any) -> list[tuple[str, str]]:
        """List the calls in an input that no tool answers: (key of the kept result, name).

        None where the program's wrapper of calls may answer them by other tools.
        """
        if self._wrap is not None or self._awrap is not None:
            return []
        if isinstance(input_value, Mapping) and input_value.get("__type") == WITH_CONTEXT:
            calls: list[Any] = [input_value["tool_call"]]
        elif _are_calls(input_value):
            calls = cast("list[Any]", input_value)
        else:
            message = last_ai(messages_of(input_value, self._key))
            calls = [] if message is None else tool_calls_of(message)
        return [
            (result_key(place, call), call["name"])
            for place, call in enumerate(calls)
            if call["name"] not in self._tools
        ]

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Run the called tools; the sync form of `ainvoke`, which prefers `wrap_tool_call`."""
        plain = self._awrap is None or self._wrap is not None
        plain = plain and all(self._is_plain(tool) for tool in self._tools.values())
        return block_on("ainvoke", partial(self._run, input, config, blocking=True), plain=plain)

    def _is_plain(self, tool: Any) -> bool:
        """Whether a blocking call of a tool runs no async code."""
        return tool.is_plain(blocking=True) and not self._policies.limit_s(tool.name)

    async def ainvoke(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Run the called tools concurrently.

        Returns: the update; see the class.
        Raises:
            InvalidUpdateError: the input has no message of a model, a call has no id, or a result
                is invalid.
            GraphInterrupt: tools were interrupted; the others finish first.
            Exception: raised by a tool, and not handled by `handle_tool_errors`.
        """
        return await self._run(input, config, blocking=False)

    async def _run(self, input: Any, config: Mapping[str, Any] | None, *, blocking: bool) -> Any:
        calls, state, like = self._parsed(input)
        listed = isinstance(input, list) and not _are_calls(input)
        requests = [self._request(call, state, config) for call in calls]
        works = [
            partial(self._run_call, request, like, listed=listed, blocking=blocking)
            for request in requests
        ]
        outcomes = [await works[0]()] if len(works) == 1 else await run_concurrently(works, calls)
        return combine_outputs(outcomes, key=self._key, listed=listed)

    def _parsed(self, given: Any) -> tuple[list[dict[str, Any]], Any, Any]:
        """Return the calls, the state, and a message whose classes the answers are to have."""
        if isinstance(given, Mapping) and given.get("__type") == WITH_CONTEXT:
            state = given["state"]
            check_call_ids([given["tool_call"]])
            return [given["tool_call"]], state, last_ai(messages_of(state, self._key))
        if _are_calls(given):
            check_call_ids(given)
            state = current_state()
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
        calls = tool_calls_of(message)
        check_call_ids(calls, message)
        return calls, given, message

    def _request(
        self, call: dict[str, Any], state: Any, config: Mapping[str, Any] | None
    ) -> ToolCallRequest:
        runtime = tool_runtime_of(call, state, config, list(self._given.values()))
        return ToolCallRequest(call, self._given.get(call["name"]), state, runtime)

    async def _run_call(
        self, request: ToolCallRequest, like: Any, *, listed: bool, blocking: bool
    ) -> Any:
        """Run one call, through the program's wrapper if there is one.

        Args:
            blocking: whether sync wrappers and sync forms of tools are preferred.
        """
        given = request.state

        async def execute(request: ToolCallRequest) -> Any:
            agreed = _of_one_state(request, given)
            return await self._execute(agreed, like=like, listed=listed, blocking=blocking)

        prefers_plain = blocking and self._wrap is not None
        if self._awrap is None and self._wrap is None:
            return await execute(request)
        try:
            if self._awrap is not None and not prefers_plain:
                return await self._awrap(request, execute)
            return await call_plain(partial(_wrapped, cast("Wrap", self._wrap), request, execute))
        except Exception as error:  # noqa: BLE001 - `handle_tool_errors` decides
            return self._answer(error, request.tool_call, like)

    async def _execute(
        self, request: ToolCallRequest, *, like: Any, listed: bool, blocking: bool
    ) -> Any:
        call, events = request.tool_call, events_of(request.tool_call, request.runtime)
        tool = self._tools.get(call["name"])
        if request.tool is not None and request.tool is not self._given.get(call["name"]):
            tool = tool_of(request.tool)  # replaced by a wrapper
        if tool is None:
            self._check_unanswered(call)
            names = ", ".join(self._tools)
            text = INVALID_TOOL_NAME_ERROR_TEMPLATE.format(
                requested_tool=call["name"], available_tools=names
            )
            return tool_message(like, call, text, error=True)
        about = {"tool.name": call["name"], "tool.call.id": call["id"], "tool.type": "function"}
        with OperationSpan("execute_tool", call["name"], about) as span:
            events.started()
            try:
                result = await self._result(tool, request, like, listed=listed, blocking=blocking)
            except Exception as error:  # noqa: BLE001 - as above
                events.failed(error)
                span.fail(error)
                return self._answer(error, call, like)
            events.finished(result)
            return result

    def _check_unanswered(self, call: Mapping[str, Any]) -> None:
        """Refuse to reply to the model in place of a tool whose question a person has answered.

        Of a single call in a function's task it isn't known whose the answer is.
        """
        scope = CURRENT.get(None)
        if scope is None:
            return
        asks = interrupt_id(scope.task.namespace + scope.key, scope.asked)
        if scope.asked >= len(scope.answers) and asks not in scope.routed:
            return
        node = scope.run_context.state.plan.nodes.get(scope.task.name)
        if scope.key or (node is not None and node.bound is self):
            raise SchemaMismatchError(
                f"a person has answered a question of tool {call['name']!r}, which node "
                f"{self.name!r} doesn't have; the answer is kept",
                do=lost_tool_advice(call["name"], list(self._tools)),
            )

    async def _result(
        self, tool: Any, request: ToolCallRequest, like: Any, *, listed: bool, blocking: bool
    ) -> Any:
        """Call a tool and check its output."""
        call = request.tool_call
        filled = fill_injected(tool.injected, call, request.state, request.runtime, self._key)
        try:
            around = like if isinstance(tool, Tool) else request.runtime.config
            # Its async form, where there is a choice: that can be stopped.
            blocking = blocking and not self._policies.limit_s(tool.name)
            work = partial(tool.call, call, filled, around, blocking=blocking)
            response = await self._policies.call(tool.name, work)
        except Exception as error:
            if not _is_validation(error):
                raise
            made = invocation_error(call, error, tool.injected.hidden)
            # The text of a cause would show the injected values.
            raise made from None if isinstance(made, InvalidInjected) else error
        return check_output(response, call, key=self._key, listed=listed)

    def _answer(self, error: Exception, call: Mapping[str, Any], like: Any) -> Any:
        """Make the reply to the model about a failure; raises the failure if it isn't handled."""
        passes = isinstance(error, InvalidInjected)
        passes = passes or is_invalid_resume(error) or is_foreign_control_flow(error)
        passes = passes or isinstance(error, SchemaMismatchError)  # the model can't help
        text = None if passes else error_reply(error, self._handling)
        if text is None:
            raise error
        return tool_message(like, call, text, error=True)


def _of_one_state(request: ToolCallRequest, given: Any) -> ToolCallRequest:
    """Give a request and its runtime one state, whichever of them a wrapper has replaced.

    Args:
        given: the state that the node made the request with.
    """
    runtime = request.runtime
    if not isinstance(runtime, ToolRuntime) or runtime.state is request.state:
        return request
    if request.state is given:
        return replace(request, state=runtime.state)
    return request.override(state=request.state) if runtime.state is given else request


def _wrapped(
    wrap: Wrap, request: ToolCallRequest, execute: Callable[..., Coroutine[Any, Any, Any]]
) -> Any:
    """Call a sync wrapper, where plain functions are called; its tools run on the event loop."""

    def run(request: ToolCallRequest) -> Any:
        if stepper_here() is None:
            return anyio.from_thread.run(execute, request)
        return block_on("ainvoke", partial(execute, request), plain=True)

    return wrap(request, run)


def _are_calls(given: Any) -> bool:
    last: Any = given[-1] if isinstance(given, list) and given else None
    if not isinstance(last, dict):
        return False
    call = cast("dict[str, Any]", last)
    return call.get("type", "tool_call" if {"name", "args"} <= call.keys() else "") == "tool_call"


def _as_given(tool: Any) -> Any:
    return getattr(tool, "given", tool)


def _is_validation(error: Exception) -> bool:
    """Whether an error is about invalid arguments: ours, or pydantic's in a LangChain tool."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return (isinstance(error, InvalidArguments) or "ValidationError" in kinds) and not (
        is_invalid_resume(error)
    )
