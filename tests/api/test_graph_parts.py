"""A compiled graph is made of parts: its class is flat, and a program may replace its methods."""

import copy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import actorgraph
from actorgraph import (
    END,
    START,
    CompiledStateGraph,
    InMemorySaver,
    ResumeTarget,
    StateGraph,
    interrupt,
)
from tests.support.graphs import AB, at, in_a_row, writer

PACKAGE = str(Path(actorgraph.__file__).parent)
DEPTH_MAX = 3
FRAMES_MAX = 6
"""Frames of the package that a debugger shows above a breakpoint in a plain node of `invoke`."""


def depth_of(kind: type) -> int:
    """How many classes of ours are above each other, the deepest way up."""
    above = max((depth_of(base) for base in kind.__bases__), default=0)
    return above + kind.__module__.startswith("actorgraph.")


def test_the_class_of_a_compiled_graph_is_flat():
    """
    The graph, the methods of one subject, the settings: no class of ours is further up.
    """
    assert depth_of(CompiledStateGraph) <= DEPTH_MAX
    assert depth_of(type("Own", (CompiledStateGraph,), {})) <= DEPTH_MAX


def test_a_debugger_shows_few_frames_above_a_plain_node():
    """
    Between a blocking call and its node a program sees no more frames of ours than today.
    """
    frames: list[str] = []

    def node(_: AB) -> dict[str, Any]:
        frames.extend(frame.filename for frame in traceback.extract_stack())
        return {}

    StateGraph(AB).add_node("n", node).add_edge(START, "n").compile().invoke({"foo": ""})

    # The layer for packages that import `langgraph` wraps `invoke`, for tracers.
    layer = "actorgraph.compat.parts.wrapped_runs" in sys.modules
    assert 0 < sum(file.startswith(PACKAGE) for file in frames) <= FRAMES_MAX + layer


def asked() -> CompiledStateGraph:
    """A graph with a saver whose only node asks."""
    builder = StateGraph(AB).add_node("ask", lambda _: {"foo": interrupt("?")})
    return builder.add_edge(START, "ask").add_edge("ask", END).compile(InMemorySaver())


def replaced(graph: CompiledStateGraph, name: str) -> list[str]:
    """Make the graph one of a program's subclass with this method; returns its calls."""
    calls: list[str] = []

    def method(self: Any, *args: Any, **more: Any) -> Any:
        calls.append(name)
        return getattr(super(kind, self), name)(*args, **more)

    kind: Any = type("Own", (CompiledStateGraph,), {name: method})
    graph.__class__ = kind
    return calls


def chunks(graph: CompiledStateGraph) -> Any:
    return graph.invoke({"foo": ""}, at(), stream_mode="updates")


def answered(graph: CompiledStateGraph) -> Any:
    (question,) = graph.get_state(at()).interrupts
    return graph.resume(at(), answers={question.id: "yes"})


def again(graph: CompiledStateGraph) -> Any:
    return graph.retry(at())


def from_newest(graph: CompiledStateGraph) -> Any:
    return graph.resume_from(at(), ResumeTarget.checkpoint(newest(graph)))


def newest(graph: CompiledStateGraph) -> str:
    return graph.get_state(at()).config["configurable"]["checkpoint_id"]


CALLED: list[tuple[Callable[..., Any], str]] = [
    (chunks, "astream"),
    (answered, "aget_state"),
    (answered, "aresume"),
    (answered, "aresume_from"),
    (answered, "ainvoke"),
    (again, "aretry"),
    (again, "aget_state"),
    (again, "ainvoke"),
    (from_newest, "aresume_from"),
    (from_newest, "ainvoke"),
    (lambda graph: graph({"foo": ""}, at()), "invoke"),
    (lambda graph: graph.batch([{"foo": ""}], at()), "abatch"),
    (lambda graph: graph.get_state(at()), "aget_state"),
    (lambda graph: list(graph.get_state_history(at())), "aget_state_history"),
    (lambda graph: graph.get_timeline(at()), "aget_timeline"),
    (lambda graph: graph.update_state(at(), {"foo": "x"}), "aupdate_state"),
    (lambda graph: graph.bulk_update_state(at(), [({"foo": "x"}, None)]), "abulk_update_state"),
    (lambda graph: graph.fork_state(at(), "other"), "afork_state"),
    (lambda graph: list(graph.stream_events({"foo": ""}, at())), "astream"),
    (lambda graph: list(graph.map_threads([{"foo": ""}])), "amap_threads"),
]
"""Calls that pass through another public method of the graph."""


@pytest.mark.parametrize(("call", "name"), CALLED)
def test_a_method_that_a_program_replaces_is_called(call, name):
    """
    Methods that build on another one call that of the program's subclass.
    """
    graph = asked()
    graph.invoke({"foo": ""}, at())
    calls = replaced(graph, name)

    call(graph)

    assert name in calls


DIRECT: list[tuple[Callable[..., Any], str]] = [
    (lambda graph: graph.invoke({"foo": ""}, at()), "ainvoke"),
    (lambda graph: list(graph.stream({"foo": ""}, at())), "astream"),
    (lambda graph: graph.batch([{"foo": ""}], at()), "ainvoke"),
]


@pytest.mark.parametrize(("call", "name"), DIRECT)
def test_a_method_with_two_forms_is_called_in_one(call, name):
    """
    A program that wraps both forms sees a call once: the blocking form doesn't call the other.
    """
    graph = asked()
    calls = replaced(graph, name)

    call(graph)

    assert calls == []


async def test_a_copy_by_the_standard_library_has_its_own_settings():
    """
    Parts belong to the object that was called: a saver that a copy is given is that copy's.
    """
    graph = in_a_row({"a": writer("a")}, checkpointer=InMemorySaver())
    twin = copy.copy(graph)
    twin.checkpointer = InMemorySaver()
    await twin.ainvoke({}, at())

    assert (await graph.aget_state(at())).created_at is None
    assert (await twin.aget_state(at())).values == {"foo": "a", "bar": ["a"]}


async def test_a_subgraph_is_read_by_its_own_program():
    """
    `aget_state(subgraphs=True)` reads each subgraph's state by the method of the graph above.
    """
    inner = StateGraph(AB).add_node("ask", lambda _: {"foo": interrupt("?")})
    builder = StateGraph(AB).add_node("below", inner.add_edge(START, "ask").compile())
    graph = builder.add_edge(START, "below").compile(InMemorySaver())
    await graph.ainvoke({"foo": ""}, at())
    calls = replaced(graph, "aget_state")

    found = await graph.aget_state(at(), subgraphs=True)

    assert calls == ["aget_state"] * 2
    assert found.tasks[0].state.next == ("ask",)
