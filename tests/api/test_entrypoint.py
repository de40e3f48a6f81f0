"""@entrypoint: a function as a durable program."""

from typing import Any

import pytest

from actorgraph import Command, InMemorySaver, entrypoint, interrupt, task
from actorgraph.errors import GraphBuildError, OutsideRunError, RunningLoopError
from tests.support.graphs import AB, at, history, in_a_row


class TestEntrypoint:
    @pytest.mark.langgraph("F-J1", "F-J2")
    async def test_returns_what_the_function_returns(self, saver):
        """
        Input and result may be of any type; the thread keeps the last one.
        """

        @entrypoint(saver)
        async def total(given: int, *, previous: int | None = None) -> int:
            return given + (previous or 0)

        assert [await total.ainvoke(n, at()) for n in (1, 2, 3)] == [1, 3, 6]
        assert (await total.aget_state(at())).values == 6
        assert [s.next for s in await history(total, at())][:2] == [(), ("total",)]

    @pytest.mark.langgraph("F-J2")
    async def test_final_saves_another_value(self, saver):
        """
        entrypoint.final gives the caller one value and the next run another.
        """

        @entrypoint(saver)
        async def flow(given: int, *, previous: Any = None) -> entrypoint.final[str, int]:
            return entrypoint.final(value=f"got {previous}", save=given)

        assert [await flow.ainvoke(n, at()) for n in (1, 2)] == ["got None", "got 1"]

    @pytest.mark.langgraph("F-J3")
    async def test_a_sync_function(self, saver):
        """
        A sync entrypoint waits for its tasks with result(), in its worker thread.
        """

        @task
        def double(n: int) -> int:
            return n * 2

        @entrypoint(saver)
        def flow(given: int) -> list[int]:
            futures = [double(given + i) for i in range(3)]
            return [f.result() for f in futures]

        assert await flow.ainvoke(1, at()) == [2, 4, 6]

    @pytest.mark.langgraph("F-J9")
    async def test_update_state_is_the_nodes(self, saver):
        """
        An update from outside counts as what the function returned.
        """

        @entrypoint(saver)
        async def flow(given: int, *, previous: Any = None) -> Any:
            return [given, previous]

        await flow.ainvoke(1, at())
        await flow.aupdate_state(at(), "edited")

        assert (await flow.aget_state(at())).values == "edited"
        assert await flow.ainvoke(2, at()) == [2, "edited"]

    @pytest.mark.langgraph("F-J8")
    async def test_streams(self, saver):
        """
        Updates come per task and at the end for the function, values once.
        """

        @task(name="step")
        async def one(n: int) -> int:
            return n

        @entrypoint(saver)
        async def flow(given: int) -> int:
            return await one(given) + await one(given)

        stream = flow.astream(2, at(), stream_mode=["updates", "values"])

        assert [chunk async for chunk in stream] == [
            ("updates", {"step": 2}),
            ("updates", {"step": 2}),
            ("updates", {"flow": 4}),
            ("values", 4),
        ]

    @pytest.mark.langgraph("F-J1")
    @pytest.mark.parametrize("kind", ["generator", "async generator", "no input"])
    def test_unsupported_functions_are_refused(self, kind):
        """
        Generators, and functions without an input, are refused at once.
        """

        def generator(given: int):
            yield given

        async def agenerator(given: int):
            yield given

        def nothing() -> int:
            return 1

        functions = {"generator": generator, "async generator": agenerator, "no input": nothing}
        with pytest.raises(GraphBuildError):
            entrypoint()(functions[kind])

    @pytest.mark.langgraph("F-J9")
    async def test_an_update_ends_waiting_tasks(self, saver):
        """
        On a thread that asks, and on one that has never run, an update is what the function would
        have returned; entrypoint.final sets both values.
        """

        @entrypoint(saver)
        async def flow(given: int, *, previous: Any = None) -> Any:
            return [given, previous] if previous else interrupt("?")

        await flow.ainvoke(1, at())
        for thread in ("t", "new"):
            await flow.aupdate_state(at(thread), entrypoint.final(value="shown", save="saved"))
            state = await flow.aget_state(at(thread))

            assert (state.values, state.next, state.interrupts) == ("shown", (), ())
            assert await flow.ainvoke(2, at(thread)) == [2, "saved"]

    @pytest.mark.langgraph("F-J2")
    async def test_its_history_shows_bare_values(self, saver):
        """
        A finished task's result is what it returned, as the state's values are.
        """

        @entrypoint(saver)
        async def flow(given: int) -> str:
            return f"got {given}"

        await flow.ainvoke(1, at())
        after, before = await history(flow, at())

        assert (after.values, after.next, after.tasks) == ("got 1", (), ())
        assert [(t.name, t.result, t.path) for t in before.tasks] == [
            ("flow", "got 1", ("__pregel_pull", "flow"))
        ]

    @pytest.mark.langgraph("F-J6", "F-F8")
    async def test_as_a_node_of_a_graph(self, saver):
        """
        An entrypoint is a node: its question is streamed once, and its steps are not repeated.
        """
        ran: list[str] = []

        @task
        async def step(text: str) -> str:
            ran.append(text)
            return text

        @entrypoint()
        async def child(state: AB) -> dict[str, Any]:
            return {"foo": await step("first"), "bar": [interrupt("?")]}

        graph = in_a_row({"child": child}, checkpointer=saver)
        asked = await graph.ainvoke({"bar": []}, at())
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert [question.value for question in asked["__interrupt__"]] == ["?"]
        assert result == {"foo": "first", "bar": ["yes"]}
        assert ran == ["first"]

    @pytest.mark.langgraph("F-J2", "F-J6")
    async def test_one_inside_may_remember(self, saver):
        """
        With checkpointer=True an entrypoint inside of another one has a `previous` of its own.
        """

        @entrypoint(checkpointer=True)
        async def child(given: int, *, previous: int | None = None) -> int:
            return given + (previous or 0)

        @entrypoint(saver)
        async def flow(given: int) -> int:
            return await child.ainvoke(given)

        assert [await flow.ainvoke(n, at()) for n in (1, 2, 3)] == [1, 3, 6]

    @pytest.mark.langgraph("F-L1")
    def test_it_is_drawn_as_its_one_node(self):
        """
        A drawing shows the function between start and end.
        """

        @entrypoint()
        async def flow(given: int) -> int:
            return given

        drawn = flow.get_graph()

        assert [(e.source, e.target) for e in drawn.edges] == [
            ("__start__", "flow"),
            ("flow", "__end__"),
        ]
        assert flow.get_input_jsonschema()["type"] == "integer"

    @pytest.mark.langgraph("F-J1")
    @pytest.mark.parametrize("argument", ["checkpointer", "store", "cache"])
    def test_its_surroundings_are_checked(self, argument):
        """
        A class instead of an object is refused where it is passed.
        """
        with pytest.raises(GraphBuildError, match="Invalid"):
            entrypoint(**{argument: InMemorySaver})

    @pytest.mark.langgraph("F-J1")
    def test_the_blocking_twins_work(self):
        """
        Outside of an event loop `invoke` and `stream` run an async program.
        """

        @task
        async def step(n: int) -> int:
            return n + 1

        @entrypoint()
        async def flow(given: int) -> int:
            return await step(given)

        assert flow.invoke(1) == 2
        assert list(flow.stream(1)) == [{"step": 2}, {"flow": 2}]


class TestFutures:
    async def test_needs_a_run(self):
        """
        Outside of a run a task can't be called; its plain function can.
        """

        @task
        def plain(n: int) -> int:
            return n

        assert plain.func(3) == 3
        with pytest.raises(OutsideRunError, match="outside a run"):
            plain(3)

    async def test_result_does_not_block_the_loop(self):
        """
        In the event loop result() is refused while the call runs, and works once it has ended.
        """

        @task
        async def step() -> int:
            return 1

        @entrypoint()
        async def flow(given: int) -> int:
            future = step()
            with pytest.raises(RunningLoopError):
                future.result()
            await future
            return future.result()

        assert await flow.ainvoke(1) == 1
