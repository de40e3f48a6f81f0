"""Stores in graphs: who gets them, and that no run is kept in one."""

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    Runtime,
    SaverRequiredError,
    Send,
    SqliteSaver,
    StateGraph,
    entrypoint,
    get_store,
    interrupt,
    task,
)
from actorgraph.errors import GraphBuildError
from actorgraph.prebuilt import InjectedStore, ToolNode, ToolRuntime
from actorgraph.stores import BaseStore, InMemoryStore
from tests.support.graphs import AB, at, in_a_row


class Spy(InMemoryStore):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list = []

    def batch(self, ops):
        self.asked += (ops := list(ops))
        return super().batch(ops)

    async def abatch(self, ops):
        self.asked += (ops := list(ops))
        return await super().abatch(ops)


async def remember(state, *, store: BaseStore):
    """Count the visits."""
    seen = await store.aget(("visits",), "n")
    await store.aput(("visits",), "n", {"n": 1 + (seen.value["n"] if seen else 0)})
    return {"foo": str((await store.aget(("visits",), "n")).value["n"])}


class TestSeparation:
    @pytest.mark.promise("S179")
    @pytest.mark.langgraph("F-I11")
    async def test_items_are_of_no_thread(self, store):
        """
        An item that a run of one thread stores, one of another reads; deleting a thread leaves it.
        """
        saver = InMemorySaver()
        graph = in_a_row({"remember": remember}, checkpointer=saver, store=store)

        assert (await graph.ainvoke({}, at("A")))["foo"] == "1"
        assert (await graph.ainvoke({}, at("B")))["foo"] == "2"
        await saver.adelete_thread("A")

        assert (await store.aget(("visits",), "n")).value == {"n": 2}
        assert (await graph.ainvoke({}, at("A")))["foo"] == "3"

    @pytest.mark.promise("S001")
    async def test_a_saver_and_a_store_are_independent(self):
        """
        With a saver alone a run is resumed; with a store alone nothing can be inspected, and the
        store holds nothing but what nodes put there.
        """

        def ask(state):
            return {"foo": interrupt("?")}

        graph = in_a_row({"ask": ask}, checkpointer=InMemorySaver())
        await graph.ainvoke({}, at("t"))
        assert (await graph.ainvoke(Command(resume="yes"), at("t")))["foo"] == "yes"

        spy = Spy()
        alone = in_a_row({"remember": remember}, store=spy)
        await alone.ainvoke({}, at("t"))
        with pytest.raises(SaverRequiredError):
            await alone.aget_state(at("t"))
        assert spy.list_namespaces() == [("visits",)]

    @pytest.mark.promise("S183")
    async def test_either_may_lose_everything(self, store, tmp_path):
        """
        Without its items a run resumes exactly; without its checkpoints the items are there.
        """

        def ask(state):
            return {"bar": [interrupt("?")]}

        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = in_a_row({"remember": remember, "ask": ask}, checkpointer=saver, store=store)
            await graph.ainvoke({}, at("t"))
            before = (await graph.aget_state(at("t"))).values
            await store.adelete(("visits",), "n")

            assert (await graph.aget_state(at("t"))).values == before
            after = await graph.ainvoke(Command(resume="yes"), at("t"))
            assert (after["foo"], after["bar"]) == ("1", ["yes"])

            await store.aput(("facts",), "k", {"n": 1})
        (tmp_path / "runs.db").unlink()

        assert (await store.aget(("facts",), "k")).value == {"n": 1}

    @pytest.mark.promise("S185")
    async def test_the_executor_asks_a_store_for_nothing(self):
        """
        Runs with branches, retries, questions, nested graphs, tasks and updates: no operation.
        """
        spy, failed = Spy(), []

        def fan(state):
            return Command(goto=[Send("leaf", {"foo": str(n)}) for n in range(3)])

        def leaf(state):
            if not failed:
                failed.append(1)
                raise ConnectionError
            return {}

        def ask(state):
            return {"bar": [interrupt("?")]}

        inner = in_a_row({"ask": ask})
        builder = StateGraph(AB).add_node("fan", fan, destinations=("leaf",))
        builder.add_node("leaf", leaf, retry_policy=_quick()).add_node("inner", inner)
        builder.add_edge(START, "fan").add_edge("leaf", "inner")
        graph = builder.compile(InMemorySaver(), store=spy, stores={"memory": spy})
        await graph.ainvoke({}, at("t"))
        await graph.aget_state(at("t"), subgraphs=True)
        await graph.ainvoke(Command(resume="yes"), at("t"))
        await graph.aupdate_state(at("t"), {"foo": "x"}, as_node="leaf")
        async for _ in graph.astream(None, at("t"), stream_mode=["values", "debug"]):
            pass

        @task
        def double(n):
            return 2 * n

        @entrypoint(checkpointer=InMemorySaver(), store=spy)
        async def flow(n):
            return await double(n)

        assert await flow.ainvoke(2, at("t")) == 4
        assert spy.asked == []


def _quick():
    from actorgraph import RetryPolicy

    return RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=2)


class TestAccess:
    @pytest.mark.langgraph("F-I11", "F-M2")
    async def test_every_way_to_the_store(self, store):
        """
        Parameter, runtime and function; in nodes, nested graphs, tasks and tools: one object.
        """
        seen: list[Any] = []

        def look(state, *, store: BaseStore, runtime: Runtime):
            seen.extend([store, runtime.store, get_store()])

        def tool(x: int, store: Annotated[Any, InjectedStore()], runtime: ToolRuntime) -> str:
            """Look."""
            seen.extend([store, runtime.store, get_store(), runtime.stores["memory"]])
            return "ok"

        @task
        def work():
            seen.append(get_store())

        @entrypoint(store=store, stores={"memory": store})
        async def flow(given, *, store, runtime: Runtime):
            seen.extend([store, runtime.stores["memory"]])
            await work()

        call = {"name": "tool", "args": {"x": 1}, "id": "1", "type": "tool_call"}
        tools = StateGraph(dict).add_node(
            "tools",
            lambda state: (
                ToolNode([tool]).invoke({"messages": [AIMessage("", tool_calls=[call])]}) and {}
            ),
        )
        tools.add_edge(START, "tools")
        inner = in_a_row({"look": look})
        graph = in_a_row({"look": look, "inner": inner}, store=store)
        await graph.ainvoke({})
        await tools.compile(store=store, stores={"memory": store}).ainvoke({})
        await flow.ainvoke(1)

        assert len(seen) == 6 + 4 + 3
        assert all(one is store for one in seen)

    async def test_without_a_store(self):
        """
        `runtime.store` and `get_store()` are None, `runtime.stores` is empty.
        """
        seen: list[Any] = []

        def look(state, runtime: Runtime):
            seen.extend([runtime.store, get_store(), dict(runtime.stores)])

        await in_a_row({"look": look}).ainvoke({})

        assert seen == [None, None, {}]


class TestRegistry:
    @pytest.mark.promise("S184")
    async def test_a_call_overrides_what_was_compiled(self):
        """
        Nodes read stores by name; the call's come before the graph's, name by name.
        """
        first, second, facts = InMemoryStore(), InMemoryStore(), InMemoryStore()
        seen: list[Any] = []

        async def look(state, runtime: Runtime):
            seen.append(dict(runtime.stores))
            await runtime.stores["memory"].aput(("a",), "k", {})

        graph = in_a_row({"look": look}, stores={"memory": first, "facts": facts})
        await graph.ainvoke({})
        await graph.ainvoke({}, stores={"memory": second})
        async for _ in graph.astream({}, stores={"more": second}):
            pass

        assert seen == [
            {"memory": first, "facts": facts},
            {"memory": second, "facts": facts},
            {"memory": first, "facts": facts, "more": second},
        ]
        assert len(second.search(())) == 1

    @pytest.mark.promise("S184")
    def test_in_blocking_calls_and_in_functions(self):
        """
        `invoke` takes a registry too, and so does an entrypoint.
        """
        store, seen = InMemoryStore(), []

        @entrypoint(stores={"memory": InMemoryStore()})
        def flow(given, *, runtime: Runtime):
            seen.append(runtime.stores["memory"])

        flow.invoke(1, stores={"memory": store})

        assert seen == [store]

    @pytest.mark.promise("S184")
    async def test_graphs_below_inherit_it(self):
        """
        A nested graph has the names of the one above, and its own before them.
        """
        above, below, seen = InMemoryStore(), InMemoryStore(), []

        def look(state, runtime: Runtime):
            seen.append(dict(runtime.stores))

        plain = in_a_row({"look": look})
        own = in_a_row({"look": look}, stores={"memory": below})
        graph = in_a_row({"plain": plain, "own": own}, stores={"memory": above, "x": above})
        await graph.ainvoke({})

        assert seen == [{"memory": above, "x": above}, {"memory": below, "x": above}]

    @pytest.mark.parametrize("wrong", [InMemoryStore(), {"a": InMemoryStore}, {1: 2}, ["a"]])
    async def test_another_object_than_a_registry_is_refused(self, wrong):
        """
        At compile and at the call, before anything runs.
        """
        with pytest.raises(GraphBuildError):
            in_a_row({"a": lambda state: None}, stores=wrong)
        with pytest.raises(GraphBuildError):
            await in_a_row({"a": lambda state: None}).ainvoke({}, stores=wrong)

    async def test_a_registry_is_a_copy(self):
        """
        Changing the dict later changes nothing; a node can't change it either.
        """
        mine = {"memory": InMemoryStore()}
        graph = in_a_row({"look": _grab}, stores=mine)
        mine["late"] = InMemoryStore()

        with pytest.raises(TypeError):
            await graph.ainvoke({})


def _grab(state, runtime: Runtime):
    assert list(runtime.stores) == ["memory"]
    runtime.stores["late"] = 1  # type: ignore[index]
