"""The cache that a node uses, how results are forgotten, and what happens when a cache fails."""

from typing import Any

import pytest

from actorgraph import (
    START,
    BaseCache,
    CachePolicy,
    Command,
    InMemoryCache,
    StateGraph,
    entrypoint,
    task,
)
from actorgraph.errors import CacheWarning, GraphBuildError, InvalidConfigError
from tests.runtime.test_caching import Calls, cache, one
from tests.runtime.test_failures import Flaky
from tests.support.graphs import AB

__all__ = ["cache"]


class TestPlaces:
    @pytest.mark.langgraph("F-K6")
    async def test_a_graph_inside_takes_its_parents_cache(self, cache):
        """
        A graph without a cache of its own uses that of the run that it is part of.
        """
        calls = Calls()
        inner = one(calls.node(), None)
        outer = StateGraph(AB).add_node("inner", inner).add_edge(START, "inner")
        graph = outer.compile(cache=cache)

        for _ in range(2):
            await graph.ainvoke({"foo": "a"})

        assert len(calls.given) == 1

    @pytest.mark.langgraph("F-K1", "F-K4", "F-J1")
    async def test_a_task_of_the_functional_api(self, cache):
        """
        `@task(cache_policy=)` keeps results by the arguments; `clear_cache` forgets them.
        """
        seen: list[tuple[int, int]] = []

        @task(cache_policy=CachePolicy())
        async def add(a: int, *, b: int) -> int:
            seen.append((a, b))
            return a + b

        @entrypoint(cache=cache)
        async def main(number: int) -> list[int]:
            return [await add(number, b=1), await add(number, b=2)]

        assert [await main.ainvoke(n) for n in (1, 1, 2)] == [[2, 3], [2, 3], [3, 4]]
        assert seen == [(1, 1), (1, 2), (2, 1), (2, 2)]
        await add.aclear_cache(cache)
        await main.ainvoke(1)
        assert len(seen) == 6

    @pytest.mark.langgraph("F-K4")
    @pytest.mark.parametrize("nodes", [None, ["node"]])
    async def test_clearing(self, cache, nodes):
        """
        `aclear_cache` forgets what the graph's nodes have kept.
        """
        graph = one(Calls().node(), cache)
        await graph.ainvoke({"foo": "a"})

        await graph.aclear_cache(nodes)

        assert (await graph.ainvoke({"foo": "a"}))["bar"] == ["a2"]

    @pytest.mark.langgraph("F-K4", "F-C22")
    def test_clearing_blocks_too(self, cache):
        """
        `clear_cache` is the blocking twin.
        """
        graph = one(Calls().node(), cache)
        graph.invoke({"foo": "a"})
        graph.clear_cache()

        assert graph.invoke({"foo": "a"})["bar"] == ["a2"]

    @pytest.mark.langgraph("F-K4")
    async def test_clearing_names_what_is_not_there(self):
        """
        A graph without a cache, and a node that isn't there, are refused.
        """
        with pytest.raises(InvalidConfigError, match="No cache is set"):
            await one(Calls().node(), None).aclear_cache()
        with pytest.raises(InvalidConfigError, match="no node 'nod'"):
            await one(Calls().node(), InMemoryCache()).aclear_cache(["nod"])


class Broken(BaseCache[Any]):
    """A cache that fails in one of its methods."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def get(self, keys):
        if self.where == "get":
            raise ConnectionError("get")
        return {}

    def set(self, pairs):
        if self.where == "set":
            raise ConnectionError("set")

    def clear(self, namespaces=None):
        pass


class TestTrouble:
    @pytest.mark.langgraph("F-K5")
    @pytest.mark.parametrize("where", ["get", "set"])
    async def test_a_cache_that_fails_is_a_miss(self, where):
        """
        The node is called, and a warning says why.
        """
        graph = one(Calls().node(), Broken(where))

        with pytest.warns(CacheWarning, match=f"ConnectionError.*{where}"):
            result = await graph.ainvoke({"foo": "a"})

        assert result["bar"] == ["a1"]

    async def test_an_input_without_a_key(self):
        """
        An input that can't be stored has no key; the node is called, with a warning.
        """
        graph = one(
            lambda s: {"bar": ["x"]}, InMemoryCache(), CachePolicy(key_func=lambda s: 1 / 0)
        )

        with pytest.warns(CacheWarning, match="no key"):
            assert (await graph.ainvoke({"foo": "a"}))["bar"] == ["x"]

    async def test_a_result_that_can_not_be_kept(self):
        """
        A result of a type that the codec doesn't know is used and not kept.
        """
        made = object()

        async def node(state):
            return {"bar": [made]}

        with pytest.warns(CacheWarning, match="could not be stored"):
            assert (await one(node, InMemoryCache()).ainvoke({"foo": "a"}))["bar"] == [made]

    async def test_a_result_for_a_graph_that_has_changed(self, cache):
        """
        A result with writes to a channel that the graph no longer has isn't used.
        """
        policy = CachePolicy(name="shared")

        async def away(state):
            return Command(update={"bar": ["old"]}, goto="gone")

        builder = StateGraph(AB).add_node("node", away, cache_policy=policy, destinations=["gone"])
        builder.add_node("gone", lambda s: None).add_edge(START, "node")
        await builder.compile(cache=cache).ainvoke({"foo": "a"})

        assert (await one(Calls().node(), cache, policy).ainvoke({"foo": "a"}))["bar"] == ["a1"]

    @pytest.mark.parametrize("policy", [3, CachePolicy(ttl=0)])
    def test_a_policy_that_makes_no_sense(self, policy):
        """
        `add_node` refuses it.
        """
        with pytest.raises(GraphBuildError, match="cache_policy"):
            StateGraph(AB).add_node("node", Flaky(), cache_policy=policy)

    @pytest.mark.parametrize("given", [3, InMemoryCache])
    def test_an_object_that_is_not_a_cache_is_refused(self, given):
        """
        `compile` refuses it.
        """
        builder = StateGraph(AB).add_node("node", Flaky()).add_edge(START, "node")
        with pytest.raises(GraphBuildError, match="Invalid cache"):
            builder.compile(cache=given)
