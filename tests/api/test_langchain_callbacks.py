"""Callbacks of LangChain: the same programs cause the same tree under LangGraph and here.

graph -> node -> router, model, tool, subgraph: names, tags, metadata, parents and values.
"""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import pytest
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    adispatch_custom_event,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.context import collect_runs
from typing_extensions import TypedDict

from actorgraph import TracePolicy, omit_payload
from tests.support.both_libraries import OURS, THEIRS, one_node
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import at, in_a_row

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
VARYING = ("langgraph_checkpoint_ns", "checkpoint_ns", "lc_versions")


class State(TypedDict, total=False):
    """A number and a text."""

    a: int
    log: str


class Tree:
    """The callbacks of a run, in order, with names instead of ids."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.names: dict[Any, str] = {}

    def note(self, kind: str, value: Any, run_id: Any, parent: Any, more: dict[str, Any]) -> None:
        """Add one callback."""
        self.names.setdefault(run_id, more.get("name") or "?")
        metadata = more.get("metadata") or {}
        shown = sorted((k, str(v)) for k, v in metadata.items() if k not in VARYING)
        place = (self.names[run_id], self.names.get(parent))
        self.rows.append((kind, *place, more.get("tags"), shown, value))

    def short(self) -> list[tuple[Any, ...]]:
        """Kind, name and parent of each."""
        return [row[:3] for row in self.rows]


class Heard(BaseCallbackHandler, Tree):
    """A handler with plain methods."""

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **more):
        self.note("start", inputs, run_id, parent_run_id, more)

    def on_chain_end(self, outputs, *, run_id, parent_run_id=None, **more):
        self.note("end", outputs, run_id, parent_run_id, more)

    def on_chain_error(self, error, *, run_id, parent_run_id=None, **more):
        self.note("error", type(error).__name__, run_id, parent_run_id, more)

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, **more):
        self.note("model", None, run_id, parent_run_id, {**more, "name": "model"})

    def on_llm_end(self, response, *, run_id, parent_run_id=None, **more):
        self.note("model end", None, run_id, parent_run_id, more)

    def on_tool_start(self, serialized, given, *, run_id, parent_run_id=None, **more):
        self.note("tool", given, run_id, parent_run_id, {**more, "name": serialized["name"]})


class Awaited(AsyncCallbackHandler, Tree):
    """A handler with async methods, which needs the event loop that it was made in."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()

    async def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **more):
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is self.loop
        self.note("start", inputs, run_id, parent_run_id, more)

    async def on_chain_end(self, outputs, *, run_id, parent_run_id=None, **more):
        assert asyncio.get_running_loop() is self.loop
        self.note("end", outputs, run_id, parent_run_id, more)


@tool
def look(x: int) -> str:
    """Look something up."""
    return str(x)


def talks(model: Any) -> Callable[[State], State]:
    def node(state: State) -> State:
        model.invoke("hello")
        return {"a": state["a"] + 1}

    return node


def uses_a_tool(state: State) -> State:
    look.invoke({"x": 1})
    return {"log": "x"}


async def uses_a_tool_async(state: State) -> State:
    await look.ainvoke({"x": 1})
    return {"log": "x"}


def inner(lib: Any) -> Any:
    return one_node(lib, State, lambda state: {"a": state["a"] + 10}, name="Inner")


def route(state: State) -> str:
    return "tool" if state["a"] < 9 else "__end__"


async def route_async(state: State) -> str:
    return route(state)


def everything(lib: Any, *, async_parts: bool = False) -> Any:
    """A graph with a model, a router, a tool, a subgraph and a Runnable in its nodes."""
    model = GenericFakeChatModel(messages=iter([AIMessage("hi")] * 9))
    builder = lib.StateGraph(State)
    builder.add_node("talk", talks(model), metadata={"mine": 1})
    builder.add_node("tool", uses_a_tool_async if async_parts else uses_a_tool)
    builder.add_node("sub", inner(lib))
    tagged = RunnableLambda(lambda state: {"log": "r"}, name="step").with_config(tags=["own"])
    builder.add_node("runnable", tagged)
    builder.add_edge("__start__", "talk")
    builder.add_conditional_edges("talk", route_async if async_parts else route)
    builder.add_edge("tool", "sub")
    builder.add_edge("sub", "runnable")
    return builder.compile(name="Main", checkpointer=lib.InMemorySaver())


def call_of(tree: Any, **more: Any) -> dict[str, Any]:
    return {**at("1"), "callbacks": [tree], "tags": ["t"], "metadata": {"m": 1}, **more}


def whole(lib: Any, tree: Any) -> None:
    everything(lib).invoke({"a": 1}, call_of(tree, run_name="Named"))


def fails(lib: Any, tree: Any) -> None:
    def bad(state: State) -> State:
        msg = "boom"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="boom"):
        one_node(lib, State, bad).invoke({"a": 1}, call_of(tree))


def starts_with_a_router(lib: Any, tree: Any) -> None:
    builder = lib.StateGraph(State).add_node("n", lambda state: {"a": 2})
    builder.add_conditional_edges("__start__", lambda state: "n").compile().invoke(
        {"a": 1}, call_of(tree)
    )


def asks(lib: Any, tree: Any, *, nested: bool) -> None:
    def ask(state: State) -> State:
        lib.interrupt("?")
        return {"a": 3}

    graph = one_node(lib, State, ask, checkpointer=None if nested else lib.InMemorySaver())
    if nested:
        graph = one_node(lib, State, graph, checkpointer=lib.InMemorySaver())
    graph.invoke({"a": 1}, call_of(tree))
    graph.invoke(lib.Command(resume=1), call_of(tree))


def calls_tasks(lib: Any, tree: Any) -> None:
    @lib.task
    def double(x: int, y: int = 2) -> int:
        return x * y

    @lib.entrypoint()
    def flow(x: int) -> int:
        return double(x).result() + 1

    flow.with_config(run_name="LangGraph").invoke(2, call_of(tree))


def in_a_function(lib: Any, tree: Any, *, returned: bool) -> None:
    graph = inner(lib)
    function = (lambda state: graph) if returned else (lambda state: graph.invoke({**state}))
    RunnableLambda(function, name="f").invoke({"a": 1}, call_of(tree))


def in_a_function_of_a_node(lib: Any, tree: Any) -> None:
    graph = inner(lib)
    function = RunnableLambda(lambda state: graph.invoke({**state}), name="f")
    one_node(lib, State, lambda state: function.invoke({**state})).invoke({"a": 1}, call_of(tree))


PROGRAMS = {
    "whole": whole,
    "error": fails,
    "start_router": starts_with_a_router,
    "interrupt": partial(asks, nested=False),
    "nested_interrupt": partial(asks, nested=True),
    "tasks": calls_tasks,
    "returned_by_a_function": partial(in_a_function, returned=True),
    "called_by_a_function": partial(in_a_function, returned=False),
    "function_of_a_node": in_a_function_of_a_node,
}


def without_commands(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows, with the class's name for a Command, of which each library has its own."""
    return [
        (*row[:-1], type(row[-1]).__name__ if "Command" in type(row[-1]).__name__ else row[-1])
        for row in rows
    ]


class TestUnderBothLibraries:
    @pytest.mark.langgraph("F-C22")
    @pytest.mark.parametrize("program", PROGRAMS)
    def test_a_program_causes_the_same_callbacks(self, program):
        """
        Names, parents, tags, metadata and values of every callback are LangGraph's.
        """
        ours, theirs = Heard(), Heard()
        PROGRAMS[program](OURS, ours)
        PROGRAMS[program](THEIRS, theirs)

        assert without_commands(ours.rows) == without_commands(theirs.rows)

    @only_asyncio
    @pytest.mark.parametrize("kind", [Heard, Awaited])
    async def test_an_async_run_causes_them_too(self, kind, anyio_backend):
        """
        An async run causes them too; its async handlers are awaited on its event loop.
        """
        ours, theirs = kind(), kind()
        await everything(OURS, async_parts=True).ainvoke({"a": 1}, call_of(ours))
        await everything(THEIRS, async_parts=True).ainvoke({"a": 1}, call_of(theirs))

        assert ours.rows == theirs.rows

    async def test_on_trio_they_are_the_same(self):
        """
        A run causes on trio what it causes on asyncio.
        """
        ours, theirs = Heard(), Heard()
        graph = everything(OURS)
        await graph.ainvoke({"a": 1}, call_of(ours))
        everything(THEIRS).invoke({"a": 1}, call_of(theirs))

        assert ours.short() == theirs.short()

    @only_asyncio
    @pytest.mark.filterwarnings("ignore:astream_events version=.v1")
    @pytest.mark.parametrize("version", ["v1", "v2"])
    async def test_event_streams_are_the_same(self, version, anyio_backend):
        """
        `astream_events` gives LangGraph's events in LangGraph's order, of a chain with a graph too.
        """

        async def program(lib: Any) -> Any:
            chain = RunnableLambda(lambda a: {"a": a}, name="first") | everything(lib)
            return (
                await events(everything(lib, async_parts=True), {"a": 1}, version),
                await events(everything(lib), {"a": 1}, version, include_types=["chat_model"]),
                await events(chain, 1, version),
                await events(one_node(lib, State, dispatches), {"a": 1}, version),
            )

        assert await program(OURS) == await program(THEIRS)

    @only_asyncio
    @pytest.mark.filterwarnings("ignore:astream_log")
    async def test_logs_are_the_same(self, anyio_backend):
        """
        `astream_log` gives LangGraph's patches.
        """

        async def program(lib: Any) -> list[Any]:
            patches = inner(lib).astream_log({"a": 1})
            return [
                (op["op"], op["path"], None if "time" in op["path"] else str(op["value"])[:12])
                async for patch in patches
                for op in patch.ops
            ]

        assert await program(OURS) == await program(THEIRS)


async def dispatches(state: State) -> State:
    await adispatch_custom_event("mine", {"x": 1})
    return {"log": "c"}


async def events(runnable: Any, given: Any, version: str, **more: Any) -> list[Any]:
    """The events of a run, with names instead of ids."""
    found: list[Any] = []
    names: dict[str, str] = {}
    config = {**at("1"), "tags": ["t"], "metadata": {"m": 1}}
    async for event in runnable.astream_events(given, config, version=version, **more):
        names.setdefault(event["run_id"], event["name"])
        shown = {k: str(v) for k, v in event["metadata"].items() if k not in VARYING}
        data = {k: getattr(v, "content", v) for k, v in event["data"].items() if k != "input"}
        above = [names.get(parent) for parent in event["parent_ids"]]
        text = "generations" if "generations" in str(data) else str(data)  # they have random ids
        found.append((event["event"], event["name"], above, event["tags"], shown, text))
    # LangGraph streams a Runnable that is a node; here reading events changes no call.
    return [row for row in found if row[:2] != ("on_chain_stream", "step")]


class TestHandlers:
    async def test_the_run_has_the_id_that_the_call_names(self):
        """
        `run_id` of a call is the graph's in callbacks; without it, that of the stored run.
        """
        with collect_runs() as seen:
            graph = inner(OURS)
            await graph.ainvoke({"a": 1}, {"run_id": (identifier := uuid4())})
            await graph.ainvoke({"a": 1})

        assert [run.name for run in seen.traced_runs] == ["Inner", "Inner"]
        assert str(seen.traced_runs[0].id) == str(identifier)
        assert [child.name for child in seen.traced_runs[1].child_runs] == ["n"]

    @only_asyncio
    async def test_a_cancelled_run_ends_with_an_error(self, anyio_backend):
        """
        A tracer is not left with an open run: graph and node end with the cancellation.
        """
        heard, slow = Heard(), Turnstile()
        graph = in_a_row({"slow": slow})
        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, {"callbacks": [heard]})
            await slow.entered.wait()
            group.cancel_scope.cancel()

        assert heard.short() == [
            ("start", "LangGraph", None),
            ("start", "slow", "LangGraph"),
            ("error", "slow", "LangGraph"),
            ("error", "LangGraph", None),
        ]

    async def test_a_refused_run_ends_with_its_error(self):
        """
        A run that doesn't begin, because its checkpoint is not there, is reported as failed.
        """
        heard = Heard()
        graph = in_a_row({"n": uses_a_tool}, checkpointer=OURS.InMemorySaver())
        missing = "1ef00000-0000-6000-8000-000000000000"
        with pytest.raises(Exception, match="has no checkpoint"):
            await graph.ainvoke(None, {**at("t", checkpoint_id=missing), "callbacks": [heard]})

        assert heard.short() == [
            ("start", "LangGraph", None),
            ("error", "LangGraph", None),
        ]

    async def test_an_error_of_a_handler_changes_nothing(self):
        """
        A handler that fails is logged by LangChain, and the run goes on.
        """

        class Broken(BaseCallbackHandler):
            def on_chain_start(self, *args: Any, **more: Any) -> None:
                msg = "broken"
                raise RuntimeError(msg)

        assert (await inner(OURS).ainvoke({"a": 1}, {"callbacks": [Broken()]}))["a"] == 11

    async def test_an_error_of_a_handler_that_insists_is_raised(self):
        """
        With `raise_error` it fails the run, and the node's function is not called.
        """

        class Strict(BaseCallbackHandler):
            raise_error = True

            def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
                if more["name"] == "n":
                    msg = "refused"
                    raise RuntimeError(msg)

        called: list[Any] = []
        graph = one_node(OURS, State, called.append)
        with pytest.raises(RuntimeError, match="refused"):
            await graph.ainvoke({"a": 1}, {"callbacks": [Strict()]})
        gc.collect()

        assert called == []

    async def test_tracers_record_what_a_policy_lets_them(self):
        """
        A node's `trace_policy` hides its values from tracers; other handlers get the real ones.
        """
        heard = Heard()
        builder = OURS.StateGraph(State)
        hide = TracePolicy(process_inputs=omit_payload, process_outputs=omit_payload)
        builder.add_node("n", lambda state: {"a": 2}, trace_policy=hide)
        graph = builder.add_edge("__start__", "n").compile()
        with collect_runs() as seen:
            await graph.ainvoke({"a": 1}, {"callbacks": [heard]})
        (node,) = seen.traced_runs[0].child_runs

        assert (node.inputs, node.outputs) == ({}, {})
        assert [row[-1] for row in heard.rows if row[1] == "n"] == [{"a": 1}, {"a": 2}]

    @pytest.mark.one_loop
    async def test_each_attempt_of_a_node_is_reported(self):
        """
        A node that is retried ends with its error, and starts again.
        """
        heard, left = Heard(), [1]

        async def unsteady(state: State) -> State:
            if left:
                left.pop()
                raise ConnectionError
            return {"a": 1}

        from actorgraph import RetryPolicy

        builder = OURS.StateGraph(State)
        builder.add_node("n", unsteady, retry_policy=RetryPolicy(initial_interval=0.001))
        await builder.add_edge("__start__", "n").compile().ainvoke({"a": 1}, call_of(heard))

        assert [kind for kind, name, _ in heard.short() if name == "n"] == [
            *("start", "error", "start", "end")
        ]


def test_nothing_is_reported_where_nothing_listens():
    """
    A call without handlers, tracers and event streams makes no observers.
    """
    seen: list[Any] = []

    async def node(state: State) -> State:
        from actorgraph.runtime.task.scope import CURRENT

        seen.append(CURRENT.get().observer)
        return {"a": 1}

    graph = one_node(OURS, State, node)
    anyio.run(graph.ainvoke, {"a": 1})
    anyio.run(graph.ainvoke, {"a": 1}, {"callbacks": [Heard()]})

    assert seen[0] is None
    assert seen[1] is not None
