"""Results of nodes that are taken again: for which input, whose, and what of them."""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from actorgraph import (
    END,
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    Send,
    SqliteCache,
    StateGraph,
    interrupt,
)
from tests.runtime.test_failures import Flaky
from tests.support.graphs import AB, at


class Calls:
    """An async node that counts its calls and returns their number.

    Attributes:
        given: the input of each call.
    """

    def __init__(self) -> None:
        self.given: list[Any] = []

    def node(self):
        async def node(state):
            self.given.append(state)
            return {"bar": [f"{state['foo']}{len(self.given)}"]}

        return node


def one(node, cache, policy=CachePolicy(), *, saver=None, **options):  # noqa: B008 - immutable
    """START -> node, with a cache policy."""
    builder = StateGraph(AB).add_node("node", node, cache_policy=policy, **options)
    return builder.add_edge(START, "node").compile(checkpointer=saver, cache=cache)


@pytest.fixture(params=["memory", "sqlite"])
def cache(request, tmp_path):
    """A cache of each kind."""
    if request.param == "memory":
        yield InMemoryCache()
    else:
        with SqliteCache(tmp_path / "cache.db") as made:
            yield made


class TestHits:
    @pytest.mark.promise("D12")
    @pytest.mark.langgraph("F-K1", "F-K2")
    async def test_the_same_input_is_not_computed_again(self, cache):
        """
        A second run with the same input takes the first one's result; another input does not.
        """
        calls = Calls()
        graph = one(calls.node(), cache)

        results = [(await graph.ainvoke({"foo": foo}))["bar"] for foo in "aab"]

        assert results == [["a1"], ["a1"], ["b2"]]

    @pytest.mark.langgraph("F-K2")
    async def test_a_hit_is_marked(self, cache):
        """
        The `updates` chunk of a result out of the cache says so.
        """
        graph = one(Calls().node(), cache)
        await graph.ainvoke({"foo": "a"})

        chunks = [chunk async for chunk in graph.astream({"foo": "a"}, stream_mode="updates")]

        assert chunks == [{"node": {"bar": ["a1"]}, "__metadata__": {"cached": True}}]

    @pytest.mark.langgraph("F-K2")
    async def test_a_hit_is_stored_as_any_result(self, saver, cache):
        """
        A run that fails beside a hit keeps it, though the cache has lost it since.
        """
        calls, policy = Calls(), CachePolicy(name="shared")
        node = calls.node()
        await one(node, cache, policy).ainvoke({"foo": "a"})
        builder = StateGraph(AB).add_node("node", node, cache_policy=policy)
        stored = anyio.Event()
        builder.add_node("bad", Flaky(1, stored)).add_edge(START, "node").add_edge(START, "bad")
        graph = builder.compile(checkpointer=saver, cache=cache)
        stream = graph.astream({"foo": "a"}, at())
        await anext(stream)
        stored.set()
        with pytest.raises(ValueError, match="boom"):
            await anext(stream)
        cache.clear()

        result = await graph.ainvoke(None, at())

        assert (result["bar"], len(calls.given)) == (["mended", "a1"], 1)

    @pytest.mark.langgraph("F-K1")
    async def test_many_tasks_of_one_superstep(self, cache):
        """
        Sends with the same argument in a later run are hits, each for itself.
        """
        seen: list[int] = []

        async def node(number):
            seen.append(number)
            return {"bar": [str(number)]}

        builder = StateGraph(AB).add_node("node", node, cache_policy=CachePolicy())
        builder.add_conditional_edges(START, lambda s: [Send("node", i) for i in range(3)])
        graph = builder.compile(cache=cache)

        assert (await graph.ainvoke({}))["bar"] == ["0", "1", "2"]
        assert (await graph.ainvoke({}))["bar"] == ["0", "1", "2"]
        assert sorted(seen) == [0, 1, 2]

    @pytest.mark.langgraph("F-K1")
    async def test_without_a_cache_a_policy_does_nothing(self):
        """
        A graph that was compiled without a cache calls its nodes.
        """
        graph = one(Calls().node(), None)

        assert [(await graph.ainvoke({"foo": "a"}))["bar"] for _ in "12"] == [["a1"], ["a2"]]


class TestKeys:
    @pytest.mark.langgraph("F-K1", "L103")
    async def test_two_closures_share_nothing(self, cache):
        """
        Functions made by one factory differ by what they hold.
        """

        def make(word: str, *, plain: bool):
            held = word if plain else object()

            async def node(state):
                return {"bar": [word, str(type(held).__name__)]}

            return node

        for plain in (True, False):
            first, second = (one(make(word, plain=plain), cache) for word in ("x", "y"))
            assert (await first.ainvoke({"foo": "a"}))["bar"][0] == "x"
            assert (await second.ainvoke({"foo": "a"}))["bar"][0] == "y"

    @pytest.mark.langgraph("L103")
    async def test_a_lambda_of_another_code_shares_nothing(self, cache):
        """
        Two functions of one name in one place differ by their code.
        """
        graphs = [one(node, cache) for node in (lambda s: {"bar": ["x"]}, lambda s: {"bar": ["y"]})]

        assert [(await g.ainvoke({"foo": "a"}))["bar"] for g in graphs] == [["x"], ["y"]]

    @pytest.mark.langgraph("F-K1")
    async def test_a_graph_made_again_finds_its_results(self, cache):
        """
        The same code in a graph that was compiled anew, as in a next process, hits.
        """
        SAID.clear()

        for _ in range(2):
            await one(said, cache).ainvoke({"foo": "a"})

        assert SAID == ["a"]

    @pytest.mark.langgraph("F-K1")
    async def test_a_name_shares_between_graphs(self, cache):
        """
        Policies of one name share results, whatever the graphs and functions are.
        """
        policy = CachePolicy(name="answers")
        first, second = Calls(), Calls()

        await one(first.node(), cache, policy).ainvoke({"foo": "a"})
        result = await one(second.node(), cache, policy).ainvoke({"foo": "a"})

        assert (result["bar"], second.given) == (["a1"], [])

    @pytest.mark.langgraph("F-K1")
    async def test_a_key_function_says_what_counts(self, cache):
        """
        `key_func` gets the input; what it leaves out makes no difference.
        """
        calls = Calls()
        graph = one(calls.node(), cache, CachePolicy(key_func=lambda s: s["foo"].lower()))

        assert [(await graph.ainvoke({"foo": foo}))["bar"] for foo in "aA"] == [["a1"], ["a1"]]

    @pytest.mark.langgraph("F-K1")
    async def test_a_result_lives_as_long_as_its_policy_says(self, tmp_path):
        """
        After `ttl` seconds the node is called again.
        """
        now = [1000.0]
        for made in (
            InMemoryCache(clock=lambda: now[0]),
            SqliteCache(tmp_path / "cache.db", clock=lambda: now[0]),
        ):
            graph = one(Calls().node(), made, CachePolicy(ttl=10))
            results = []
            for later in (0, 9, 2):
                now[0] += later
                results.append((await graph.ainvoke({"foo": "a"}))["bar"])

            assert results == [["a1"], ["a1"], ["a2"]]


SAID: list[str] = []


async def said(state):
    """A node of the module, as programs have them."""
    SAID.append(state["foo"])
    return {"bar": [state["foo"]]}


class TestWhatIsKept:
    @pytest.mark.langgraph("L103")
    async def test_routes_are_found_anew(self, cache):
        """
        Where a conditional edge leads depends on the state of the run that takes the result.
        """

        async def node(number: dict[str, Any]):
            return {"bar": ["node"]}

        def make(target: str):
            builder = StateGraph(AB).add_node("node", node, cache_policy=CachePolicy())
            for name in ("left", "right"):
                builder.add_node(name, lambda s, name=name: {"bar": [name]})
            builder.add_conditional_edges("node", lambda s: s["foo"], ["left", "right"])
            policy = CachePolicy(key_func=lambda s: "always")
            builder.nodes["node"] = replace(builder.nodes["node"], cache=policy)
            return builder.add_edge(START, "node").compile(cache=cache)

        graph = make("left")

        assert (await graph.ainvoke({"foo": "left"}))["bar"] == ["node", "left"]
        assert (await graph.ainvoke({"foo": "right"}))["bar"] == ["node", "right"]

    @pytest.mark.langgraph("F-K1", "F-C5")
    async def test_a_commands_route_is_the_nodes_own(self, cache):
        """
        The node's own route is part of its result.
        """
        seen: list[str] = []

        async def node(state) -> Command[Any]:
            seen.append("node")
            return Command(update={"bar": ["node"]}, goto="next")

        builder = StateGraph(AB).add_node(
            "node", node, cache_policy=CachePolicy(), destinations=["next"]
        )
        builder.add_node("next", lambda s: {"bar": ["next"]}).add_edge(START, "node")
        graph = builder.add_edge("next", END).compile(cache=cache)

        for _ in range(2):
            assert (await graph.ainvoke({"foo": "a"}))["bar"] == ["node", "next"]
        assert seen == ["node"]

    @pytest.mark.langgraph("F-K3")
    async def test_a_failure_is_not_kept(self, cache):
        """
        A node that failed is called again.
        """
        flaky = Flaky(1)
        graph = one(flaky, cache)

        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({"foo": "a"})

        assert (await graph.ainvoke({"foo": "a"}))["bar"] == ["mended"]

    @pytest.mark.langgraph("F-K3")
    async def test_results_with_answers_are_not_cached(self, saver, cache):
        """
        Neither a question nor a result that an answer went into is taken for another run.
        """

        async def node(state):
            return {"bar": [interrupt("may I?")]}

        graph = one(node, cache, saver=saver)
        for thread, answer in (("t1", "yes"), ("t2", "no")):
            asked = await graph.ainvoke({"foo": "a"}, at(thread))
            assert [i.value for i in asked["__interrupt__"]] == ["may I?"]
            result = await graph.ainvoke(Command(resume=answer), at(thread))
            assert result["bar"] == [answer]
