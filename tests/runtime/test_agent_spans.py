"""Spans of agents: OpenTelemetry's `gen_ai.*` attributes of runs, model calls and tool calls."""

from contextlib import nullcontext
from typing import Any

import anyio
import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage as TheirAIMessage
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from actorgraph import START, Command, InMemorySaver, MessagesState, StateGraph, interrupt
from actorgraph.errors import NodeTimeoutError
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import ToolInvocationError, ToolNode, create_react_agent
from tests.prebuilt.scripted import ASKED, Script, calling, double
from tests.runtime.test_spans import Traces, traces
from tests.support.graphs import ab, at, in_a_row

__all__ = ["traces"]

# LangChain's async calls need asyncio.
only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def of(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span that OpenTelemetry names."""
    found = span.attributes or {}
    return {
        name.removeprefix("gen_ai."): value
        for name, value in found.items()
        if name.startswith("gen_ai.") or name == "error.type"
    }


class Model(Script):
    """A chat model with a name."""

    model_name = "small-1"


async def test_a_run_of_an_agent_has_its_operations(traces: Traces):
    """
    The run invokes an agent; below its nodes are the model's calls and the tools', with the
    model, the tokens and the ids of the conversation and of the call.
    """
    answer = AIMessage(
        "8",
        usage_metadata={"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        response_metadata={"model_name": "small-1-2026", "id": "r1", "finish_reason": "stop"},
    )
    model = Model(calling(("double", {"number": 4})), answer)
    agent = create_react_agent(model, [double], name="maths", checkpointer=InMemorySaver())

    await agent.ainvoke(ASKED, at())

    run, tool = traces.one("invoke_agent maths"), traces.one("execute_tool double")
    first, last = traces.named("chat small-1")
    ids = {"conversation.id": "t"}
    assert of(run) == {"operation.name": "invoke_agent", "agent.name": "maths", **ids}
    assert of(tool) == {
        "operation.name": "execute_tool",
        "tool.name": "double",
        "tool.call.id": "double0",
        "tool.type": "function",
        **ids,
    }
    assert of(first) == {"operation.name": "chat", "request.model": "small-1", **ids}
    assert of(last) == {
        **of(first),
        "response.model": "small-1-2026",
        "response.id": "r1",
        "response.finish_reasons": ("stop",),
        "usage.input_tokens": 5,
        "usage.output_tokens": 2,
    }
    assert [traces.above(span) for span in (first, tool)] == ["agent", "tools"]
    assert [s.kind for s in (run, tool, first)] == [
        SpanKind.INTERNAL,
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
    ]


class Theirs(GenericFakeChatModel):
    """A chat model of LangChain's that names itself."""

    def _get_ls_params(self, stop: Any = None, **options: Any) -> Any:
        return {"ls_provider": "google_genai", "ls_model_name": "g-1", "ls_model_type": "chat"}


class Broken(Theirs):
    """One that can't be reached."""

    def _generate(self, *given: Any, **options: Any) -> Any:
        raise ConnectionError("no")


class Interrupted(Theirs):
    """One that Ctrl-C ends."""

    def _generate(self, *given: Any, **options: Any) -> Any:
        raise KeyboardInterrupt


def theirs(*answers: Any) -> Theirs:
    return Theirs(messages=iter(answers))


@pytest.mark.parametrize("nested", [False, True], ids=["in a graph", "in a subgraph"])
async def test_models_of_langchain_have_one_span_for_each_call(traces: Traces, nested):
    """
    A model that a node calls by itself is seen by its callbacks, once, below the node.
    """
    used = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    model = theirs(TheirAIMessage("hi", usage_metadata=used))

    def node(state: MessagesState):
        return {"messages": [model.invoke(state["messages"])]}

    graph = in_a_row({"talk": node}, schema=MessagesState)
    if nested:
        graph = in_a_row({"below": graph}, schema=MessagesState)
    await graph.ainvoke({"messages": ["hello"]})

    span = traces.one("chat g-1")
    assert of(span) == {
        "operation.name": "chat",
        "provider.name": "gcp.gemini",
        "request.model": "g-1",
        "usage.input_tokens": 3,
        "usage.output_tokens": 1,
    }
    assert traces.above(span) == "talk"


async def test_a_model_that_fails_has_the_error(traces: Traces):
    """
    The span of a failed call has the kind of its error and the status of one.
    """

    def node(state: MessagesState):
        return {"messages": [Broken(messages=iter(())).invoke(state["messages"])]}

    with pytest.raises(ConnectionError):
        await in_a_row({"talk": node}, schema=MessagesState).ainvoke({"messages": ["hello"]})

    span = traces.one("chat g-1")
    assert span.status.status_code is StatusCode.ERROR
    assert of(span)["error.type"] == "ConnectionError"


def test_a_model_call_that_ctrl_c_ends_was_cancelled(traces: Traces):
    """
    Ctrl-C inside a model's call cancels the call; its span has no error.
    """

    def node(state: MessagesState):
        return {"messages": [Interrupted(messages=iter(())).invoke(state["messages"])]}

    with pytest.raises(KeyboardInterrupt):
        in_a_row({"talk": node}, schema=MessagesState).invoke({"messages": ["hello"]})

    span = traces.one("chat g-1")
    assert (span.attributes or {})["actorgraph.status"] == "cancelled"
    assert span.status.status_code is StatusCode.UNSET


class Silent(Theirs):
    """One that never answers."""

    async def _agenerate(self, *given: Any, **options: Any) -> Any:
        self.metadata["asked"].set()  # type: ignore[index]
        await anyio.sleep_forever()


def asking(asked: anyio.Event, **limits: Any):
    """A graph whose node calls a model that never answers."""
    model = Silent(messages=iter(()), metadata={"asked": asked})

    async def talk(state: MessagesState):
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("talk", talk, **limits)
    builder.add_edge(START, "talk")
    return builder.compile()


@only_asyncio
async def test_a_cancelled_model_call_has_an_ended_span(traces: Traces):
    """
    A call that is cancelled with its run ends with the status "cancelled", below its node.
    """
    asked = anyio.Event()
    graph = asking(asked)
    async with anyio.create_task_group() as group:
        group.start_soon(graph.ainvoke, {"messages": ["hello"]})
        await asked.wait()
        group.cancel_scope.cancel()

    span = traces.one("chat g-1")
    assert (span.attributes or {})["actorgraph.status"] == "cancelled"
    assert traces.above(span) == "talk"


@only_asyncio
async def test_a_model_call_that_times_out_has_the_error_of_its_node(traces: Traces):
    """
    The span of a call that the node's time limit ends has the error of the node.
    """
    with pytest.raises(NodeTimeoutError):
        await asking(anyio.Event(), timeout=0.05).ainvoke({"messages": ["hello"]})

    span = traces.one("chat g-1")
    assert of(span)["error.type"] == "NodeTimeoutError"
    assert span.status.status_code is StatusCode.ERROR


async def test_a_tool_that_asks_has_not_failed(traces: Traces):
    """
    A question ends the span of the call without an error; the answered call has another span.
    """

    def asks() -> str:
        """Ask."""
        return interrupt("?")

    model = Model(calling(("asks", {})), AIMessage("done"))
    agent = create_react_agent(model, [asks], checkpointer=InMemorySaver())
    await agent.ainvoke(ASKED, at())
    await agent.ainvoke(Command(resume="yes"), at())

    spans = traces.named("execute_tool asks")
    assert [span.status.status_code for span in spans] == [StatusCode.UNSET] * 2


@pytest.mark.parametrize("replies", [False, True])
async def test_a_failed_tool_says_why(traces: Traces, replies):
    """
    The kind of the error is an attribute, whether or not the model gets a reply, and it is
    recorded once.
    """

    def breaks() -> str:
        """Fail."""
        raise KeyError("no")

    model = Model(calling(("breaks", {})), AIMessage("well"))
    agent = create_react_agent(model, ToolNode([breaks], handle_tool_errors=replies))
    with nullcontext() if replies else pytest.raises(KeyError):
        await agent.ainvoke(ASKED)

    span = traces.one("execute_tool breaks")
    assert of(span)["error.type"] == "KeyError"
    assert len(span.events) == 1
    assert span.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("replies", [False, True])
async def test_refused_arguments_are_in_no_span(traces: Traces, replies):
    """
    Of arguments that don't fit, spans have the kind of the error and the tool, not the values.
    """
    given = "hunter2"
    model = Model(calling(("double", {"number": given})), AIMessage("well"))
    agent = create_react_agent(model, ToolNode([double], handle_tool_errors=replies))
    with nullcontext() if replies else pytest.raises(ToolInvocationError):
        await agent.ainvoke(ASKED)

    span = traces.one("execute_tool double")
    told = span.events[0].attributes or {}
    assert of(span)["error.type"] == "ToolInvocationError"
    assert told["exception.message"] == "tool 'double'"
    assert all(given not in span.to_json() for span in traces.spans)


async def test_an_error_of_a_node_hides_the_arguments_of_its_cause(traces: Traces):
    """
    The traceback of an error that refused arguments have led to isn't recorded; its text is.
    """

    async def node(state: MessagesState):
        try:
            await ToolNode([double], handle_tool_errors=False).ainvoke(state)
        except ToolInvocationError as error:
            raise KeyError("no answer") from error

    asked = calling(("double", {"number": "hunter2"}))
    with pytest.raises(KeyError):
        await in_a_row({"talk": node}, schema=MessagesState).ainvoke({"messages": [asked]})

    told = traces.one("talk").events[0].attributes or {}
    assert told["exception.message"] == "'no answer'"
    assert all("hunter2" not in span.to_json() for span in traces.spans)


async def test_other_graphs_have_none(traces: Traces):
    """
    Spans of a graph without chat messages have only this library's attributes.
    """
    await ab().ainvoke({"bar": []})

    assert {span.name for span in traces.spans} == {"run LangGraph", "superstep", "a", "b"}
    assert all(of(span) == {} for span in traces.spans)


async def test_without_a_provider_no_span_is_made():
    """
    In a program that doesn't trace, a tool runs in no span.
    """
    seen: list[bool] = []

    def look() -> str:
        """Look at the current span."""
        seen.append(trace.get_current_span().get_span_context().is_valid)
        return "ok"

    model = Model(calling(("look", {})), AIMessage("done"))
    await create_react_agent(model, [look]).ainvoke(ASKED)

    assert seen == [False]
