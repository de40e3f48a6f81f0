"""create_react_agent: a model that calls tools until it has its answer; its states and routes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

from actorgraph.errors import ActorGraphError, ErrorCode, GraphBuildError, InvalidUpdateError
from actorgraph.graph import END, CompiledStateGraph, RemainingSteps, StateGraph
from actorgraph.internals import (
    ContextT,
    check_call_ids,
    class_annotations,
    get_config,
    get_runtime,
    mark_only_reads,
    old_names,
)
from actorgraph.messages import add_messages, answer_open_calls
from actorgraph.ports import Checkpointer, Store
from actorgraph.prebuilt import models
from actorgraph.prebuilt.chat_messages import (
    is_tool_message,
    kind_of,
    last_ai,
    message_module,
    messages_of,
    replace_fields,
    tool_calls_of,
)
from actorgraph.prebuilt.tool_node import WITH_CONTEXT, ToolNode
from actorgraph.types import Send


class AgentState(TypedDict):
    """The state of an agent: its conversation."""

    messages: Annotated[Sequence[Any], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStateWithStructuredResponse(AgentState):
    """The state of an agent that ends with a structured response."""

    structured_response: Any


def pydantic_state(name: str) -> Any:
    """Make `AgentStatePydantic` or `AgentStateWithStructuredResponsePydantic`.

    On first access, so that pydantic is imported only by programs that use them.
    """
    create_model = import_module("pydantic").create_model
    plain = create_model(
        "AgentStatePydantic",
        __doc__="The state of an agent, as a pydantic model.",
        messages=(Annotated[list[Any], add_messages], ...),
        remaining_steps=(RemainingSteps, 25),
    )
    if name == "AgentStatePydantic":
        return plain
    return create_model(
        name,
        __base__=plain,
        __doc__="The state of an agent that ends with a structured response, as a pydantic model.",
        structured_response=(Any, None),
    )


def state_for(given: Any, response_format: Any, *, answers: bool = False) -> Any:
    """Return the schema of an agent's state.

    Args:
        given: the program's schema; None for `AgentState`.
        response_format: if given, the state has a `structured_response` of that type.
        answers: whether the messages' reducer answers open calls; a program's schema has its own.
    Raises:
        GraphBuildError: the program's schema lacks a key that the agent needs.
    """
    if given is None:
        if response_format is None and not answers:
            return AgentState
        return _own_state(response_format, answers=answers)
    needed = {"messages", "remaining_steps"}
    if response_format is not None:
        needed.add("structured_response")
    if missing := needed - class_annotations(given).keys():
        raise GraphBuildError(
            f"Missing required key(s) {sorted(missing)} in state_schema",
            do="add them, or derive the schema from actorgraph.prebuilt.AgentState",
        )
    return given


def _own_state(response_format: Any, *, answers: bool) -> Any:
    """Make a schema with the type of the response, so that savers may store it."""
    fields = class_annotations(AgentState)
    if answers:
        fields["messages"] = Annotated[Sequence[Any], add_messages(open_calls="answer")]
    if response_format is not None:
        schema: Any = response_format[1] if isinstance(response_format, tuple) else response_format
        fields["structured_response"] = schema if isinstance(schema, type) else dict[str, Any]
    return _typed_dict("AgentState", fields)


def input_for(state: Any) -> Any:
    """Return the input schema of the model's node after a hook: also `llm_input_messages`."""
    if hasattr(state, "model_fields"):
        create_model = import_module("pydantic").create_model
        return create_model("ModelInput", __base__=state, llm_input_messages=(Any, None))
    hints = class_annotations(state)
    return _typed_dict("ModelInput", {**hints, "llm_input_messages": list[Any]})


def _typed_dict(name: str, fields: dict[str, Any]) -> Any:
    make = cast("Any", TypedDict)
    return make(name, fields, total=False)


def value_of(state: Any, key: str) -> Any:
    """Return a state's value of a key; None if it has none."""
    if isinstance(state, dict):
        return cast("dict[str, Any]", state).get(key)
    return getattr(state, key, None)


def with_messages(state: Any, messages: Sequence[Any]) -> Any:
    """Copy a state with other messages."""
    if isinstance(state, dict):
        return {**cast("dict[str, Any]", state), "messages": list(messages)}
    return state.model_copy(update={"messages": list(messages)})


@mark_only_reads
def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Route to "tools" if the last message has tool calls, else to the end.

    Args:
        state: a state with messages, or a list of messages.
        messages_key: the key of the messages in the state.
    Raises:
        InvalidUpdateError: the state has no messages.
    """
    messages = messages_of(state, messages_key)
    if not messages:
        raise InvalidUpdateError(
            f"No messages found in input state to tool_edge: {state}",
            do=f"route after a node that writes {messages_key!r}, or pass messages_key=",
        )
    return "tools" if tool_calls_of(messages[-1]) else "__end__"


OUT_OF_STEPS_TEXT = "Sorry, need more steps to process this request."
"""Replaces a response whose tool calls no step is left for."""
ANSWER_NODE = "generate_structured_response"


class InvalidChatHistoryError(ActorGraphError, ValueError):
    """A conversation has a tool call without its answer, which models refuse."""


@old_names(config_schema="context_schema")
def create_react_agent(
    model: Any,
    tools: Sequence[Any] | ToolNode,
    *,
    prompt: Any = None,
    response_format: Any = None,
    pre_model_hook: Callable[..., Any] | None = None,
    post_model_hook: Callable[..., Any] | None = None,
    state_schema: Any = None,
    context_schema: type[ContextT] | None = None,
    checkpointer: Checkpointer = None,
    store: Store | None = None,
    interrupt_before: Sequence[str] | None = None,
    interrupt_after: Sequence[str] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
    open_calls: Literal["answer"] | None = None,
) -> CompiledStateGraph[Any, ContextT]:
    """Make an agent that calls a model and its tools in turn; `debug` has no effect.

    Args:
        model: a LangChain chat model or its name; an object with `ainvoke` or `invoke`, or a
            function, of messages; or a function of `(state, runtime)` that chooses the model.
        tools: functions, LangChain tools, dicts for tools of the provider; or a ToolNode.
        prompt: a text or a message before the conversation, or a function of the state.
        response_format: a schema, or `(system text, schema)`, for `structured_response`.
        pre_model_hook, post_model_hook: nodes before (sets `llm_input_messages`) and after it.
        state_schema: with at least `messages` and `remaining_steps`; default: `AgentState`.
        context_schema, checkpointer, store, interrupt_before, interrupt_after: as in `compile`.
        version: "v2" runs each tool call as a task, "v1" all calls of a message in one task.
        name: of the agent; set on its messages, too.
        open_calls: "answer" answers tool calls of cancelled runs, as `add_messages`; None refuses.
    Raises:
        GraphBuildError: an argument is invalid.
        MissingExtraError: the model's name needs LangChain, which isn't installed.
    """
    del debug
    agent = _Agent(
        **_model_and_tools(model, tools),
        **_choices(prompt, version, open_calls),
        response_format=response_format,
        name=name,
        before=pre_model_hook,
        after=post_model_hook,
    )
    before, after = interrupt_before or (), interrupt_after or ()
    return agent.graph(state_schema, context_schema).compile(
        checkpointer, store=store, interrupt_before=before, interrupt_after=after, name=name
    )


def _named(message: Any, name: str) -> Any:
    """Name a message, itself if it can be changed: callbacks and streams have this object too."""
    try:
        message.name = name
    except AttributeError:  # frozen
        return replace_fields(message, name=name)
    return message


def _choices(prompt: Any, version: str, open_calls: Any) -> dict[str, Any]:
    if version not in ("v1", "v2"):
        raise GraphBuildError(
            f"Invalid version {version}. Supported versions are 'v1' and 'v2'.", do="use 'v2'"
        )
    if open_calls not in {None, "answer"}:
        raise GraphBuildError(
            f"Unknown open_calls {open_calls!r}", do='use open_calls="answer", or leave it out'
        )
    return {
        "prompt": models.make_prompt(prompt),
        "one_task_per_call": version == "v2",
        "answers": open_calls is not None,
    }


def _model_and_tools(model: Any, tools: Sequence[Any] | ToolNode) -> dict[str, Any]:
    """Return the model with the tools bound, and the node for the tools that the graph runs."""
    foreign = [] if isinstance(tools, ToolNode) else [t for t in tools if isinstance(t, dict)]
    if not isinstance(tools, ToolNode):
        tools = ToolNode([tool for tool in tools if not isinstance(tool, dict)])
    if isinstance(model, str):
        model = models.model_named(model)
    dynamic = models.is_dynamic(model)
    if not dynamic:
        model = models.with_tools(model, [*tools.tools_by_name.values(), *foreign])
    return {"model": model, "tools": tools, "dynamic": dynamic}


@dataclass(frozen=True, slots=True)
class _Agent:
    """One agent: its parts, its nodes and its routes."""

    model: Any
    dynamic: bool
    prompt: models.Prompt
    response_format: Any
    tools: ToolNode
    name: str | None
    before: Callable[..., Any] | None
    after: Callable[..., Any] | None
    one_task_per_call: bool
    answers: bool

    @property
    def entry(self) -> str:
        """The first node of each round."""
        return "agent" if self.before is None else "pre_model_hook"

    @property
    def finish(self) -> str:
        """The node after a model's message without tool calls."""
        return END if self.response_format is None else ANSWER_NODE

    def graph(self, state: Any, context: Any) -> StateGraph:
        """Build the agent's graph; `state` is the program's schema, or None."""
        state = state_for(state, self.response_format, answers=self.answers)
        builder = StateGraph(state, context)
        seen = state if self.before is None else input_for(state)
        builder.add_node("agent", self.ask, input_schema=seen)
        if self.tools.tools_by_name:
            builder.add_node("tools", self.tools)
        if self.before is not None:
            builder.add_node("pre_model_hook", self.before)
            builder.add_edge("pre_model_hook", "agent")
        builder.set_entry_point(self.entry)
        if self.after is not None:
            builder.add_node("post_model_hook", self.after)
            builder.add_edge("agent", "post_model_hook")
        if self.response_format is not None:
            builder.add_node(ANSWER_NODE, self.answer)
        last = "agent" if self.after is None else "post_model_hook"
        if not self.tools.tools_by_name:
            return builder.add_edge(last, self.finish)
        if self.after is None:
            ways = ["tools", self.finish]
            builder.add_conditional_edges("agent", self.should_continue, ways, inline=True)
        else:
            ways = [self.entry, "tools", self.finish]
            builder.add_conditional_edges("post_model_hook", self.after_hook, ways, inline=True)
        if self._direct():
            ways = [self.entry, END]
            builder.add_conditional_edges("tools", self.after_tools, ways, inline=True)
        else:
            builder.add_edge("tools", self.entry)
        return builder

    async def ask(self, state: Any) -> dict[str, Any]:
        """Node "agent": call the model."""
        seen = value_of(state, "llm_input_messages") if self.before is not None else None
        messages = seen or value_of(state, "messages")
        if messages is None:
            raise InvalidChatHistoryError(
                f"Expected input to call_model to have 'messages' key, but got {state}",
                do="start the agent with {'messages': [...]}",
                code=ErrorCode.INVALID_CHAT_HISTORY,
            )
        messages = self._history(messages)
        model = await self._model(state)
        conversation = await self.prompt(with_messages(state, messages))
        response = await models.ask_model(model, conversation, get_config())
        if self.name is not None:
            response = _named(response, self.name)
        if self._out_of_steps(state, response):
            make = message_module([response]).AIMessage
            response = make(content=OUT_OF_STEPS_TEXT, id=response.id)
        return {"messages": [response]}

    async def answer(self, state: Any) -> dict[str, Any]:
        """Node for the structured response."""
        model = await self._model(state)
        messages = self._history(value_of(state, "messages"), checks=False)
        made = await models.ask_structured(model, messages, self.response_format, get_config())
        return {"structured_response": made}

    def _history(self, messages: Sequence[Any], *, checks: bool = True) -> list[Any]:
        """Return the conversation as the model gets it: each tool call with its answer."""
        if self.answers:
            return answer_open_calls(list(messages))
        if checks:
            _check_history(messages)
        return list(messages)

    async def _model(self, state: Any) -> Any:
        if not self.dynamic:
            return self.model
        return await models.maybe_threaded(self.model, state, get_runtime())

    def _direct(self) -> set[str]:
        """Return the names of the tools whose answers end the agent."""
        tools = self.tools.tools_by_name
        return {name for name, tool in tools.items() if getattr(tool, "return_direct", False)}

    def _out_of_steps(self, state: Any, response: Any) -> bool:
        """Whether the tool calls of a response would need more steps than are left."""
        left, calls = value_of(state, "remaining_steps"), tool_calls_of(response)
        if left is None or not calls:
            return False
        ends = all(call["name"] in self._direct() for call in calls)
        return left < (1 if ends else 2)

    def should_continue(self, state: Any) -> Any:
        """Route after the model: to the tools that it calls, or to the end."""
        calls = tool_calls_of(value_of(state, "messages")[-1])
        if not calls:
            return self.finish
        return self._sends(state, calls) if self.one_task_per_call else "tools"

    def after_hook(self, state: Any) -> Any:
        """Route after the post-model hook: to the calls that have no answer yet."""
        messages = value_of(state, "messages")
        answered = {m.tool_call_id for m in messages if is_tool_message(m)}
        message = last_ai(messages)
        check_call_ids(tool_calls_of(message), message)
        calls = [c for c in tool_calls_of(message) if c["id"] not in answered]
        if calls:
            return self._sends(state, calls)
        return self.entry if is_tool_message(messages[-1]) else self.finish

    def after_tools(self, state: Any) -> str:
        """Route after the tools, some of which end the agent."""
        direct = self._direct()
        for message in reversed(value_of(state, "messages")):
            if not is_tool_message(message):
                calls = tool_calls_of(message)
                return END if any(c["name"] in direct for c in calls) else self.entry
            if message.name in direct:
                return END
        return self.entry

    def _sends(self, state: Any, calls: list[dict[str, Any]]) -> list[Send]:
        """Make one Send per call, with the state only if a tool or a wrapper may read it.

        Sends are stored with the checkpoint: the whole state in each would be large.
        """
        seen = state if self.tools.uses_state else {"messages": value_of(state, "messages")[-1:]}
        return [
            Send("tools", {"__type": WITH_CONTEXT, "tool_call": call, "state": seen})
            for call in calls
        ]


def _check_history(messages: Sequence[Any]) -> None:
    """Refuse a history that every model refuses: a tool call without its answer."""
    answered = {m.tool_call_id for m in messages if is_tool_message(m)}
    asking = [m for m in messages if kind_of(m) == "ai"]
    for message in asking:
        check_call_ids(tool_calls_of(message), message)
    calls = [c for m in asking for c in tool_calls_of(m)]
    open_calls = [c for c in calls if c["id"] not in answered]
    if open_calls:
        raise InvalidChatHistoryError(
            "Found AIMessages with tool_calls that do not have a corresponding ToolMessage: "
            f"{open_calls[:3]}",
            do="add a ToolMessage for each call, remove the message that asks for it, or pass "
            'open_calls="answer": calls of cancelled runs are then answered "cancelled"',
            code=ErrorCode.INVALID_CHAT_HISTORY,
        )
