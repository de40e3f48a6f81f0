"""Cached results of nodes that take their runtime whole, or read a part of it that is absent."""

import sys
from collections.abc import Callable
from copy import copy
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypedDict

import langgraph.runtime
import pytest

from actorgraph import (
    START,
    CachePolicy,
    InMemoryCache,
    Runtime,
    StateGraph,
    get_runtime,
    get_store,
)
from actorgraph.errors import CacheWarning
from actorgraph.stores import InMemoryStore


class State(TypedDict, total=False):
    question: str
    answer: str


class Context(TypedDict, total=False):
    user: str


CALLS: list[str] = []


def answered(user: Any) -> State:
    CALLS.append(str(user))
    return {"answer": f"of {user}"}


def cached(node: Any, cache: InMemoryCache | None = None, **options: Any) -> Any:
    builder = StateGraph(State, Context).add_node("n", node, cache_policy=CachePolicy())
    return builder.add_edge(START, "n").compile(cache=cache or InMemoryCache(), **options)


async def ask(graph: Any, context: Any = None) -> str:
    """Ask the same question with a context."""
    return (await graph.ainvoke({"question": "?"}, context=context))["answer"]


@pytest.fixture(autouse=True)
def none_called():
    """Begin without calls."""
    CALLS.clear()


@pytest.fixture(params=["alone", "beside LangGraph"])
def _with_and_without_langgraph(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Run a test in a program with and without LangGraph, whose runtime shows the same parts."""
    if request.param == "alone":
        for name in [name for name in sys.modules if name.partition(".")[0] == "langgraph"]:
            monkeypatch.delitem(sys.modules, name)


def _matched(runtime: Any) -> Any:
    match runtime:
        case Runtime(context=context):
            return context


WHOLE_RUNTIMES: dict[str, Callable[[Runtime[Context]], Any]] = {
    "vars": lambda runtime: vars(runtime)["context"],
    "dict": lambda runtime: runtime.__dict__["context"],
    "vars_of_a_copy": lambda runtime: vars(copy(runtime))["context"],
    "replace": lambda runtime: replace(runtime, store=None).context,
    "override": lambda runtime: runtime.override(store=None).context,
    "merge_into": lambda runtime: Runtime().merge(runtime).context,
    "merge": lambda runtime: runtime.merge(Runtime()).context,
    "fields": lambda runtime: {f.name: getattr(runtime, f.name) for f in fields(runtime)}[
        "context"
    ],
    "attrgetter": attrgetter("context"),
    "match": _matched,
    "repr": lambda runtime: {"user": "ada" if "'ada'" in repr(runtime) else "bob"},
    "eq": lambda r: {"user": "ada" if r == r.override(context={"user": "ada"}) else "bob"},
    "getstate": lambda runtime: runtime.__getstate__()["context"],  # type: ignore[index]
    "pickle": lambda runtime: runtime.__reduce_ex__(4)[2]["context"],  # type: ignore[index]
}


@pytest.mark.usefixtures("_with_and_without_langgraph")
@pytest.mark.parametrize("read", WHOLE_RUNTIMES.values(), ids=WHOLE_RUNTIMES)
async def test_a_node_that_takes_the_whole_runtime(read: Callable[[Any], Any]):
    """
    A runtime that is taken as a whole, in any way, is read: another user's result is not taken.
    """

    def node(state: State, runtime: Runtime[Context]) -> State:
        return answered(read(runtime)["user"])

    graph = cached(node)

    found = [await ask(graph, {"user": user}) for user in ("ada", "bob", "ada")]

    assert found == ["of ada", "of bob", "of ada"]
    assert CALLS == ["ada", "bob"]


@pytest.mark.usefixtures("_with_and_without_langgraph")
class TestAbsentParts:
    async def test_a_call_without_a_context(self):
        """
        A result that was made without a context is not that of a user, nor the other way round.
        """

        def node(state: State, runtime: Runtime[Context]) -> State:
            return answered((runtime.context or {}).get("user", "nobody"))

        graph = cached(node)

        found = [await ask(graph, context) for context in (None, {"user": "ada"}, {}, None)]

        assert found == ["of nobody", "of ada", "of nobody", "of nobody"]
        assert CALLS == ["nobody", "ada", "nobody"]

    @pytest.mark.parametrize(
        "read", [get_store, lambda: get_runtime().store], ids=["own", "runtime"]
    )
    async def test_a_graph_without_a_store(self, read):
        """
        A result that was made without a store is kept, and not found by a run with one.
        """

        def node(state: State) -> State:
            return answered("nothing" if read() is None else "a store")

        cache = InMemoryCache()
        bare, stored = cached(node, cache), cached(node, cache, store=InMemoryStore())

        found = [await ask(graph) for graph in (bare, bare)]
        with pytest.warns(CacheWarning, match="has read a store"):
            found.append(await ask(stored))

        assert found == ["of nothing", "of nothing", "of a store"]
        assert CALLS == ["nothing", "a store"]


@pytest.mark.parametrize(
    "get_any_runtime", [get_runtime, langgraph.runtime.get_runtime], ids=["own", "LangGraph's"]
)
def test_threads_have_own_results(get_any_runtime: Callable[[], Any]):
    """
    A node that reads its thread from a runtime, this library's or LangGraph's, gets no result of
    another thread.
    """

    def node(state: State) -> State:
        return answered(get_any_runtime().execution_info.thread_id)

    graph = cached(node)

    found = [
        graph.invoke({"question": "?"}, {"configurable": {"thread_id": thread}})["answer"]
        for thread in ("1", "2", "1")
    ]

    assert found == ["of 1", "of 2", "of 1"]
    assert CALLS == ["1", "2"]
