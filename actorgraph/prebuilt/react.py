"""create_react_agent: a model that calls tools until it has its answer.

The model may be a LangChain chat model, or its name; any object with `ainvoke` or `invoke`, or any
function, that takes messages and returns one; or a function of `(state, runtime)` that chooses one
of these for each step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from actorgraph.api.graph import CompiledStateGraph
from actorgraph.api.state_graph import StateGraph
from actorgraph.errors import ActorGraphError, GraphBuildError
from actorgraph.ports import Checkpointer, Store
from actorgraph.prebuilt import models
from actorgraph.prebuilt.chat import (
    changed,
    family,
    is_tool_message,
    kind_of,
    last_ai,
    tool_calls_of,
)
from actorgraph.prebuilt.states import input_for, state_for, value_of, with_messages
from actorgraph.prebuilt.tool_node import WITH_CONTEXT, ToolNode
from actorgraph.runtime.context import get_config
from actorgraph.runtime.injection import get_runtime
from actorgraph.values.commands import Send
from actorgraph.values.constants import END

SORRY = "Sorry, need more steps to process this request."
ANSWER = "generate_structured_response"


class InvalidChatHistoryError(ActorGraphError, ValueError):
    """A conversation has a call of a tool without its answer, which models refuse."""


def create_react_agent(
    model: Any,
    tools: Sequence[Any] | ToolNode,
    *,
    prompt: Any = None,
    response_format: Any = None,
    pre_model_hook: Callable[..., Any] | None = None,
    post_model_hook: Callable[..., Any] | None = None,
    state_schema: Any = None,
    context_schema: Any = None,
    checkpointer: Checkpointer = None,
    store: Store | None = None,
    interrupt_before: Sequence[str] | None = None,
    interrupt_after: Sequence[str] | None = None,
    debug: bool = False,
    version: Literal["v1", "v2"] = "v2",
    name: str | None = None,
) -> CompiledStateGraph:
    """An agent: its model is asked, the tools that it calls run, and it is asked again.

    Args:
        model: see the module. tools: functions, LangChain tools, dicts of tools that the
            model's maker runs; or a ToolNode. Without any the model is asked once.
        prompt: a text or a message before the conversation, or a function of the state.
        response_format: a schema, or `(system text, schema)`, for `structured_response`.
        pre_model_hook: a node before the model, which sees its `llm_input_messages`, if any.
        post_model_hook: a node after the model.
        state_schema: with at least `messages` and `remaining_steps`; default `AgentState`.
        context_schema, checkpointer, store, interrupt_before, interrupt_after: as in `compile`.
        debug: no effect. version: "v2" runs each call as a task, "v1" all of a message in one.
        name: the agent's; it stands on its messages too.
    Raises:
        GraphBuildError: an argument can't be used.
        MissingExtraError: the model's name needs LangChain, which isn't installed.
    """
    del debug
    agent = _Agent(
        **_model_and_tools(model, tools),
        prompt=models.prompt_of(prompt),
        response_format=response_format,
        name=name,
        before=pre_model_hook,
        after=post_model_hook,
        each_apart=_is_v2(version),
    )
    builder = agent.graph(state_for(state_schema, response_format), context_schema)
    before, after = interrupt_before or (), interrupt_after or ()
    return builder.compile(
        checkpointer, store=store, interrupt_before=before, interrupt_after=after, name=name
    )


def _is_v2(version: str) -> bool:
    if version not in ("v1", "v2"):
        raise GraphBuildError(
            f"Invalid version {version}. Supported versions are 'v1' and 'v2'.", do="use 'v2'"
        )
    return version == "v2"


def _model_and_tools(model: Any, tools: Sequence[Any] | ToolNode) -> dict[str, Any]:
    """A model that knows the tools, and the node that runs those that we run."""
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
    """The parts of one agent, its nodes and its routes."""

    model: Any
    dynamic: bool
    prompt: models.Prompt
    response_format: Any
    tools: ToolNode
    name: str | None
    before: Callable[..., Any] | None
    after: Callable[..., Any] | None
    each_apart: bool

    @property
    def entry(self) -> str:
        """Where each round begins."""
        return "agent" if self.before is None else "pre_model_hook"

    @property
    def finish(self) -> str:
        """Where the agent goes once the model calls nothing more."""
        return END if self.response_format is None else ANSWER

    def graph(self, state: Any, context: Any) -> StateGraph:
        """The agent as a graph."""
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
            builder.add_node(ANSWER, self.answer)
        last = "agent" if self.after is None else "post_model_hook"
        if not self.tools.tools_by_name:
            return builder.add_edge(last, self.finish)
        if self.after is None:
            builder.add_conditional_edges("agent", self.after_model, ["tools", self.finish])
        else:
            ways = [self.entry, "tools", self.finish]
            builder.add_conditional_edges("post_model_hook", self.after_hook, ways)
        if self._direct():
            builder.add_conditional_edges("tools", self.after_tools, [self.entry, END])
        else:
            builder.add_edge("tools", self.entry)
        return builder

    async def ask(self, state: Any) -> dict[str, Any]:
        """The model's node."""
        seen = value_of(state, "llm_input_messages") if self.before is not None else None
        messages = seen or value_of(state, "messages")
        if messages is None:
            raise InvalidChatHistoryError(
                f"Expected input to call_model to have 'messages' key, but got {state}",
                do="start the agent with {'messages': [...]}",
            )
        _check_history(messages)
        model = await self._model(state)
        conversation = await self.prompt(with_messages(state, messages))
        response = await models.ask(model, conversation, get_config())
        if self.name is not None:
            response = changed(response, name=self.name)
        if self._out_of_steps(state, response):
            make = family([response]).AIMessage
            response = make(content=SORRY, id=response.id)
        return {"messages": [response]}

    async def answer(self, state: Any) -> dict[str, Any]:
        """The node of the answer in a given form."""
        model = await self._model(state)
        messages = list(value_of(state, "messages"))
        made = await models.structured(model, messages, self.response_format, get_config())
        return {"structured_response": made}

    async def _model(self, state: Any) -> Any:
        if not self.dynamic:
            return self.model
        return await models.maybe_threaded(self.model, state, get_runtime())

    def _direct(self) -> set[str]:
        """The tools whose answers end the agent."""
        tools = self.tools.tools_by_name
        return {name for name, tool in tools.items() if getattr(tool, "return_direct", False)}

    def _out_of_steps(self, state: Any, response: Any) -> bool:
        """Whether the calls that the model asks for would take more steps than are left."""
        left, calls = value_of(state, "remaining_steps"), tool_calls_of(response)
        if left is None or not calls:
            return False
        ends = all(call["name"] in self._direct() for call in calls)
        return left < (1 if ends else 2)

    def after_model(self, state: Any) -> Any:
        """The route after the model: to the tools that it calls, or to the end."""
        calls = tool_calls_of(value_of(state, "messages")[-1])
        if not calls:
            return self.finish
        return self._sends(state, calls) if self.each_apart else "tools"

    def after_hook(self, state: Any) -> Any:
        """The route after the hook: to the calls that have no answer yet."""
        messages = value_of(state, "messages")
        answered = {m.tool_call_id for m in messages if is_tool_message(m)}
        calls = [c for c in tool_calls_of(last_ai(messages)) if c["id"] not in answered]
        if calls:
            return self._sends(state, calls)
        return self.entry if is_tool_message(messages[-1]) else self.finish

    def after_tools(self, state: Any) -> str:
        """The route after tools of which some end the agent."""
        direct = self._direct()
        for message in reversed(value_of(state, "messages")):
            if not is_tool_message(message):
                calls = tool_calls_of(message)
                return END if any(c["name"] in direct for c in calls) else self.entry
            if message.name in direct:
                return END
        return self.entry

    def _sends(self, state: Any, calls: list[dict[str, Any]]) -> list[Send]:
        """One task per call. They carry the state only if a tool or a wrapper may look at it."""
        seen = state if self.tools.uses_state else {"messages": value_of(state, "messages")[-1:]}
        return [
            Send("tools", {"__type": WITH_CONTEXT, "tool_call": call, "state": seen})
            for call in calls
        ]


def _check_history(messages: Sequence[Any]) -> None:
    """Refuse what every model refuses: a call without its answer."""
    answered = {m.tool_call_id for m in messages if is_tool_message(m)}
    calls = [c for m in messages if kind_of(m) == "ai" for c in tool_calls_of(m)]
    open_calls = [c for c in calls if c["id"] not in answered]
    if open_calls:
        raise InvalidChatHistoryError(
            "Found AIMessages with tool_calls that do not have a corresponding ToolMessage: "
            f"{open_calls[:3]}",
            do="add a ToolMessage for each call, or remove the message that asks for it",
        )
