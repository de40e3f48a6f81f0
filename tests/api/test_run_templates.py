"""Runs of a compiled graph share its parts, but nothing of an older graph or of another call."""

from datetime import timedelta

import anyio
import pytest

from actorgraph import (
    GraphDrained,
    GraphRecursionError,
    InMemorySaver,
    InvalidConfigError,
    RunControl,
    StepTimeoutError,
    StoreRequiredError,
    get_runtime,
)
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.stores import InMemoryStore
from tests.support.graphs import ab, at, history, in_a_row


def reading_stores(seen, **options):
    """A graph of one node that keeps the store and the context that it sees."""

    async def node(state):
        seen.append((get_runtime().store, get_runtime().context))
        return {"foo": "x"}

    return in_a_row({"node": node}, **options)


class TestChangedGraphs:
    async def test_an_assignment_counts_for_the_next_run(self):
        """
        `step_timeout` may be set and taken back between two runs.
        """

        async def node(state):
            if state["foo"] == "wait":
                await anyio.sleep_forever()
            return {"bar": ["x"]}

        graph = in_a_row({"node": node})
        await graph.ainvoke({"foo": "go"})
        graph.step_timeout = timedelta(milliseconds=1)
        with pytest.raises(StepTimeoutError):
            await graph.ainvoke({"foo": "wait"})
        graph.step_timeout = None

        assert (await graph.ainvoke({"foo": "go"}))["bar"] == ["x"]

    async def test_a_copy_is_not_the_graph_that_has_run(self):
        """
        A copy made after a run has its own store, and the graph keeps its store.
        """
        seen: list = []
        first, second = InMemoryStore(), InMemoryStore()
        graph = reading_stores(seen, store=first)
        await graph.ainvoke({})
        await graph.copy({"store": second}).ainvoke({})
        await graph.ainvoke({})

        assert [store for store, _ in seen] == [first, second, first]

    async def test_a_store_that_a_subclass_computes_is_asked_for_at_each_run(self):
        """
        A property `store`, such as one for each tenant, is read by every run.
        """
        seen: list = []
        graph = reading_stores(seen)
        stores = [InMemoryStore(), InMemoryStore()]

        class OfTenants(type(graph)):
            @property
            def store(self):
                return stores[len(seen)]

        graph.__class__ = OfTenants
        await graph.ainvoke({})
        await graph.ainvoke({})

        assert [store for store, _ in seen] == stores

    async def test_an_assignment_while_a_run_begins_is_not_lost(self, monkeypatch):
        """
        A store that another thread sets while a run begins holds for all later runs.
        """
        seen: list = []
        graph, store = reading_stores(seen), InMemoryStore()
        made = GraphSettings.__dict__["_make_template"]

        def and_assigned(self):
            template = made(self)
            self.store = store
            return template

        monkeypatch.setattr(GraphSettings, "_make_template", and_assigned)
        await graph.ainvoke({})
        await graph.ainvoke({})

        assert seen[1][0] is store

    @pytest.mark.parametrize(("mode", "count"), [("sync", 4), ("exit", 1)])
    async def test_a_default_durability_is_that_of_the_copy(self, mode, count):
        """
        `with_durability` holds for a graph that has run with another one before.
        """
        graph = ab(InMemorySaver())
        await graph.ainvoke({}, at("before"))
        await graph.with_durability(mode).ainvoke({}, at("after"))

        assert len(await history(graph, at("before"))) == 4
        assert len(await history(graph, at("after"))) == count


class TestCalls:
    async def test_settings_end_with_their_call(self):
        """
        Limits, context and a control of one call are not those of the next one.
        """
        seen: list = []
        graph = reading_stores(seen)
        control = RunControl()
        control.request_drain("enough")
        with pytest.raises(GraphDrained):
            await graph.ainvoke({}, control=control)
        with pytest.raises(GraphRecursionError):
            await ab().ainvoke({}, {"recursion_limit": 1})
        await graph.ainvoke({}, context={"user": "ada"})
        await graph.ainvoke({})

        assert [context for _, context in seen] == [{"user": "ada"}, None]

    async def test_a_durability_is_that_of_its_call(self):
        """
        Each call's `durability` holds for it alone, and an unknown one is refused.
        """
        graph = ab(InMemorySaver())
        await graph.ainvoke({}, at("exit"), durability="exit")
        await graph.ainvoke({}, at("default"))
        for wrong in ("never", ["sync"], 1):
            with pytest.raises(InvalidConfigError, match="durability"):
                await graph.ainvoke({}, at("wrong"), durability=wrong)  # type: ignore[arg-type]

        assert len(await history(graph, at("exit"))) == 1
        assert len(await history(graph, at("default"))) == 4

    async def test_a_missing_store_is_reported_by_each_call(self):
        """
        A graph whose node needs a store is refused at every call, until a copy has one.
        """

        async def node(state, store: InMemoryStore):
            return {"foo": "x"}

        graph = in_a_row({"node": node})
        for _ in range(2):
            with pytest.raises(StoreRequiredError):
                await graph.ainvoke({})

        assert (await graph.copy({"store": InMemoryStore()}).ainvoke({}))["foo"] == "x"


async def test_a_subgraph_stores_for_the_saver_above_it():
    """
    A graph that has run on a saver of its own stores in that of the graph whose node runs it.
    """
    own, above = InMemorySaver(), InMemorySaver()
    inner = ab(own)
    await inner.ainvoke({}, at("alone"))
    copied = inner.copy({"checkpointer": None})

    async def node(state):
        return await copied.ainvoke({"bar": ["in"]})

    outer = in_a_row({"node": node}, checkpointer=above)
    result = await outer.ainvoke({}, at("below"))

    assert result["bar"] == ["in", "a", "b"]
    assert [one async for one in own.alist(at("below"))] == []
    assert len([one async for one in above.alist(None)]) > 4
