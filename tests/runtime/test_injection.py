"""Arguments of nodes besides the state: by parameter, and by a function that they call."""

import time
from functools import partial

import pytest

from actorgraph import (
    START,
    Command,
    ExecutionInfo,
    InMemorySaver,
    Runtime,
    Send,
    StateGraph,
    StoreRequiredError,
    get_config,
    get_runtime,
    get_store,
    get_stream_writer,
    interrupt,
)
from actorgraph.errors import GraphBuildError, OutsideRunError
from tests.support.graphs import AB, at, compiled, in_a_row


class Shelf:
    """The least that counts as a store."""

    def batch(self, ops):
        return list(ops)

    async def abatch(self, ops):
        return list(ops)


def looking(seen: list, *, sync: bool):
    """A node that declares everything and keeps what it got."""

    def look(state, *, config, writer, store, runtime, previous, error):
        seen.append((config, writer, store, runtime, previous, error))

    async def alook(state, config, writer, *, store, runtime, **others):
        seen.append((config, writer, store, runtime, None, None))

    return look if sync else alook


class TestParameters:
    @pytest.mark.langgraph("F-A6")
    @pytest.mark.parametrize("sync", [True, False])
    async def test_a_node_gets_what_it_declares(self, sync):
        """
        Sync and async nodes are handed the same things, by the names of their parameters.
        """
        seen: list = []
        shelf = Shelf()
        graph = in_a_row({"look": looking(seen, sync=sync)}, store=shelf)
        await graph.ainvoke({}, {"metadata": {"user": "ada"}}, context={"a": 1})
        config, writer, store, runtime, previous, error = seen[0]

        assert config["metadata"]["user"] == "ada"
        assert callable(writer)
        assert store is runtime.store is shelf
        assert runtime.context == {"a": 1}
        assert runtime.stream_writer is writer
        assert (previous, error) == (None, None)

    @pytest.mark.langgraph("F-A6")
    async def test_objects_methods_and_partials_are_filled_in_too(self):
        """
        An object with `__call__`, a bound method and a partial get what they declare.
        """
        seen: list = []

        class Node:
            async def __call__(self, state, runtime):
                seen.append(runtime)

            def method(self, state, runtime):
                seen.append(runtime)

        def bound(first, state, runtime, last):
            seen.append(runtime)

        actions = {"a": Node(), "b": Node().method, "c": partial(bound, 1, last=2)}
        await in_a_row(actions).ainvoke({})

        assert [runtime.execution_info.checkpoint_ns[0] for runtime in seen] == ["a", "b", "c"]

    @pytest.mark.langgraph("F-A6")
    @pytest.mark.parametrize("sync", [True, False])
    async def test_conditional_edges_get_what_they_declare(self, sync):
        """
        The function of a conditional edge may ask for the runtime as a node may.
        """

        def route(state, runtime):
            return runtime.context

        async def aroute(state, runtime):
            return route(state, runtime)

        builder = StateGraph(AB)
        builder.add_node("a", lambda s: {"foo": "a"}).add_node("b", lambda s: {"foo": "b"})
        builder.add_conditional_edges(START, route if sync else aroute, ["a", "b"])

        assert (await builder.compile().ainvoke({}, context="b"))["foo"] == "b"

    @pytest.mark.langgraph("F-A6")
    async def test_a_missing_store_is_refused_before_anything_runs(self):
        """
        A node whose `store` isn't optional can't run without one, and none before it does.
        """
        ran: list[str] = []

        def needs(state, store): ...

        graph = in_a_row(
            {"first": lambda s: ran.append("first"), "needs": needs}, checkpointer=InMemorySaver()
        )
        with pytest.raises(StoreRequiredError, match=r"'needs'.*parameter `store`"):
            await graph.ainvoke({}, at())
        with pytest.raises(StoreRequiredError):
            graph.astream({}, at())

        assert ran == []
        assert (await graph.aget_state(at())).next == ()

    @pytest.mark.langgraph("F-A6")
    async def test_an_optional_store_is_none(self):
        """
        `store: BaseStore | None` is filled with None if the graph has none.
        """
        seen: list = []

        def node(state, store: Shelf | None):
            seen.append(store)

        await in_a_row({"node": node}).ainvoke({})

        assert seen == [None]

    def test_an_object_that_is_not_a_store_is_refused(self):
        """
        `compile(store=...)` takes an object that carries out batches of operations, no class.
        """
        for wrong in (Shelf, object(), "store"):
            with pytest.raises(GraphBuildError, match="Invalid store"):
                in_a_row({"node": lambda s: None}, store=wrong)


class TestRuntime:
    @pytest.mark.langgraph("F-C18")
    async def test_functions_find_what_parameters_get(self):
        """
        `get_runtime`, `get_store`, `get_config` and `get_stream_writer` work wherever the node's
        code is, also in a worker thread.
        """
        seen: list = []
        shelf = Shelf()

        def deep(state):
            seen.append((get_runtime(dict), get_store(), get_config(), get_stream_writer()))

        async def adeep(state):
            deep(state)

        await in_a_row({"a": deep, "b": adeep}, store=shelf).ainvoke({}, context={"x": 1})

        assert len(seen) == 2
        for runtime, store, config, writer in seen:
            assert (runtime.context, runtime.store, store) == ({"x": 1}, shelf, shelf)
            assert config["configurable"]["checkpoint_ns"] == runtime.execution_info.checkpoint_ns
            assert runtime.stream_writer is writer

    async def test_it_is_made_once_for_a_task(self):
        """
        A node, its edges and the functions below it see one object.
        """
        seen: list = []

        async def node(state, runtime):
            seen.extend((runtime, get_runtime()))

        def route(state, runtime):
            seen.append(runtime)
            return "__end__"

        builder = StateGraph(AB).add_node("node", node).add_edge(START, "node")
        await builder.add_conditional_edges("node", route).compile().ainvoke({})

        assert len({id(runtime) for runtime in seen}) == 1

    @pytest.mark.parametrize("function", [get_runtime, get_store], ids=lambda f: f.__qualname__)
    async def test_outside_of_a_node_they_say_so(self, function):
        """
        Called anywhere else they raise, with advice.
        """
        with pytest.raises(OutsideRunError, match="called outside of a node"):
            function()

    @pytest.mark.langgraph("F-C17")
    def test_override_and_merge_make_new_ones(self):
        """
        `override` replaces fields; `merge` takes what the other one has set.
        """
        writer = [].append
        old = Runtime(context={"a": 1}, stream_writer=writer, previous="p")
        new = old.override(context={})
        merged = old.merge(Runtime(context={}, store="s"))

        assert (new.context, new.previous, old.context) == ({}, "p", {"a": 1})
        assert (merged.context, merged.store, merged.previous) == ({}, "s", "p")
        assert merged.stream_writer is writer

    @pytest.mark.langgraph("F-C19")
    def test_execution_info_can_be_patched(self):
        """
        `patch_execution_info` replaces some of its fields, where there are any.
        """
        info = ExecutionInfo(checkpoint_id="c", checkpoint_ns="n", task_id="t")
        runtime = Runtime(execution_info=info).patch_execution_info(task_id="u")

        assert runtime.execution_info == ExecutionInfo("c", "n", "u")
        with pytest.raises(OutsideRunError, match="belongs to no run"):
            Runtime().patch_execution_info(task_id="u")

    def test_without_a_run_it_does_nothing(self):
        """
        The writer and the heartbeat of a Runtime made by hand take calls and drop them.
        """
        runtime = Runtime()

        assert (runtime.stream_writer("x"), runtime.heartbeat()) == (None, None)
        assert (runtime.drain_requested, runtime.drain_reason) == (False, None)


class TestExecutionInfo:
    @pytest.mark.langgraph("F-C19")
    async def test_it_names_the_task_and_its_place(self):
        """
        Thread, checkpoint, task, namespace and run are those of the snapshot.
        """
        seen: list[ExecutionInfo] = []

        async def node(state, runtime):
            seen.append(runtime.execution_info)
            interrupt("?")

        graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
        before = time.time()
        await graph.ainvoke({}, {**at("t1"), "run_id": "r1"})
        snapshot = await graph.aget_state(at("t1"))
        info = seen[0]

        assert info.task_id == snapshot.tasks[0].id
        assert info.checkpoint_id == snapshot.config["configurable"]["checkpoint_id"]
        assert info.checkpoint_ns == f"node:{info.task_id}"
        assert (info.thread_id, info.run_id, info.node_attempt) == ("t1", "r1", 1)
        assert before <= info.node_first_attempt_time <= time.time()

    @pytest.mark.langgraph("F-C19")
    async def test_without_a_saver_the_thread_id_is_none(self):
        """
        `thread_id` is None then, and the run has an id of its own.
        """
        seen: list[ExecutionInfo] = []

        def node(state, runtime):
            seen.append(runtime.execution_info)

        graph = in_a_row({"node": node})
        await graph.ainvoke({})
        await graph.ainvoke({})

        assert [info.thread_id for info in seen] == [None, None]
        assert seen[0].run_id != seen[1].run_id
        assert seen[0].idempotency_key != seen[1].idempotency_key

    async def test_the_idempotency_key_outlives_the_attempt(self):
        """
        A task that runs again after its run has ended has the key of its first attempt; other
        tasks, and other threads, have others.
        """
        keys: list[str] = []

        async def node(state, runtime):
            keys.append(runtime.execution_info.idempotency_key)
            return {"foo": interrupt("?")}

        graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
        await graph.ainvoke({}, at("a"))
        await graph.ainvoke(Command(resume="x"), at("a"))
        await graph.ainvoke({}, at("b"))

        assert keys[0] == keys[1]
        assert keys[2] not in keys[:2]

    async def test_each_task_of_a_fan_out_has_its_own(self):
        """
        Two Sends to one node are two tasks with two keys.
        """
        keys: list[str] = []

        async def each(state, runtime):
            keys.append(runtime.execution_info.idempotency_key)

        builder = StateGraph(AB).add_node("each", each)
        builder.add_conditional_edges(START, lambda s: [Send("each", 1), Send("each", 2)])
        await builder.compile().ainvoke({})

        assert len(set(keys)) == 2


class TestNestedRuns:
    @pytest.mark.langgraph("F-C17", "F-I11")
    async def test_a_nested_run_inherits_context_and_store(self):
        """
        A graph in a node sees the context and the store of the run above, unless it has its own.
        """
        seen: list = []
        outer_shelf, own_shelf = Shelf(), Shelf()

        async def leaf(state, runtime):
            seen.append((runtime.context, runtime.store))

        child = in_a_row({"leaf": leaf})
        with_store = in_a_row({"leaf": leaf}, store=own_shelf)

        async def calls(state):
            await child.ainvoke(state)
            await child.ainvoke(state, context="inner")
            await with_store.ainvoke(state)

        graph = compiled(
            {"child": child, "calls": calls},
            [(START, "child"), ("child", "calls")],
            store=outer_shelf,
        )
        await graph.ainvoke({"foo": "x"}, context="outer")

        assert seen == [
            ("outer", outer_shelf),
            ("outer", outer_shelf),
            ("inner", outer_shelf),
            ("outer", own_shelf),
        ]

    @pytest.mark.langgraph("F-A6")
    async def test_a_store_from_above_is_enough_for_a_node_that_needs_one(self):
        """
        A graph without a store whose node needs one runs in a graph that has one.
        """
        seen: list = []

        async def leaf(state, store):
            seen.append(store)

        child, shelf = in_a_row({"leaf": leaf}), Shelf()
        await in_a_row({"child": child}, store=shelf).ainvoke({"foo": "x"})

        assert seen == [shelf]
        with pytest.raises(StoreRequiredError):
            await in_a_row({"child": child}).ainvoke({"foo": "x"})
