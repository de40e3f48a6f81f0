"""Arguments and results of a `@task` function."""

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    Runtime,
    Send,
    SerializationError,
    StateGraph,
    StreamWriter,
    entrypoint,
    interrupt,
    task,
)
from tests.support.graphs import at

pytestmark = pytest.mark.every_saver


@dataclass
class Verdict:
    good: bool


class TestArguments:
    @pytest.mark.langgraph("F-J3")
    async def test_are_those_of_the_function(self):
        """
        Positions, names, defaults and rests work as in a plain call; a wrong call is an error where
        the future is awaited.
        """

        @task
        async def step(a: int, *rest: int, b: int = 2, **more: int) -> Any:
            return [a, list(rest), b, more]

        @entrypoint()
        async def flow(given: int) -> Any:
            wrong = step()  # type: ignore[call-arg]
            with pytest.raises(TypeError):
                await wrong
            return [await step(1), await step(1, 2, 3), await step(1, b=5, c=6)]

        assert await flow.ainvoke(1) == [[1, [], 2, {}], [1, [2, 3], 2, {}], [1, [], 5, {"c": 6}]]

    @pytest.mark.langgraph("F-C17", "F-J3")
    async def test_those_of_the_run_are_filled_in(self):
        """
        Parameters named as those of nodes are filled in, at any position.
        """

        @task
        async def step(n: int, config: dict[str, Any], *, runtime: Runtime[Any]) -> Any:
            return [n, config["configurable"]["thread_id"], runtime.context]

        @entrypoint(InMemorySaver(), context_schema=dict)
        async def flow(given: int) -> Any:
            return await step(given)  # type: ignore[call-arg]

        assert await flow.ainvoke(1, at(), context={"a": 1}) == [1, "t", {"a": 1}]

    async def test_but_never_over_the_calls_own(self):
        """
        Arguments that a call gives by position or by name win.
        """

        @task
        async def step(n: int, config: Any = None, writer: Any = None) -> Any:
            return [n, config, writer]

        @entrypoint()
        async def flow(given: int) -> Any:
            return await step(given, "mine", writer="own")

        assert await flow.ainvoke(1) == [1, "mine", "own"]

    @pytest.mark.langgraph("F-J8")
    async def test_a_sync_function_gets_them_too(self):
        """
        The writer of a sync task reaches the readers of "custom".
        """

        @task
        def step(n: int, writer: StreamWriter) -> int:
            writer(n)
            return n

        @entrypoint()
        def flow(given: int) -> int:
            return step(given).result()  # type: ignore[call-arg]

        assert [c async for c in flow.astream(1, stream_mode="custom")] == [1]

    async def test_a_method_is_called_with_its_object(self):
        """
        @task in the body of a class makes a method.
        """

        class Adder:
            def __init__(self, more: int) -> None:
                self.more = more

            @task
            async def plus(self, n: int) -> int:
                return n + self.more

        @entrypoint()
        async def flow(given: int) -> int:
            return await Adder(10).plus(given) + await Adder.plus(Adder(100), given)

        assert await flow.ainvoke(1) == 112


class TestValues:
    @pytest.mark.langgraph("F-J1", "F-J3")
    async def test_a_command_or_a_send_is_a_value(self, saver):
        """
        The result of a task or an entrypoint goes to its caller, and routes nothing.
        """

        @task
        async def step() -> Any:
            return Command(update={"a": 1}, goto="nowhere")

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return [await step(), Send("nowhere", given)]

        @entrypoint(saver)
        async def single(given: int) -> Any:
            return Command(goto="nowhere")

        assert await flow.ainvoke(1, at()) == [
            Command(update={"a": 1}, goto="nowhere"),
            Send("nowhere", 1),
        ]
        assert await single.ainvoke(1, at("other")) == Command(goto="nowhere")

    async def test_a_command_for_the_graph_above_is_for_the_caller(self):
        """
        A `Command` for the parent graph from a subgraph inside of a task reaches the node's graph.
        """

        class State(TypedDict):
            foo: str

        async def inside(state: State) -> Any:
            return Command(graph=Command.PARENT, update={"foo": "up"}, goto="b")

        inner = StateGraph(State).add_node("inside", inside).add_edge(START, "inside").compile()

        @task
        async def run(state: State) -> Any:
            return await inner.ainvoke(state)

        async def a(state: State) -> Any:
            return {"foo": str(await run(state))}

        async def b(state: State) -> Any:
            return {"foo": state["foo"] + "b"}

        graph = StateGraph(State).add_node("a", a, destinations=("b",)).add_node("b", b)
        graph = graph.add_edge(START, "a").compile()

        assert await graph.ainvoke({"foo": ""}) == {"foo": "upb"}

    @pytest.mark.langgraph("F-J4")
    async def test_a_type_that_its_annotation_names_is_stored(self, store):
        """
        A class of the program's own comes back as itself, with a new saver too.
        """
        ran: list[int] = []

        @task
        async def judge(n: int) -> list[Verdict]:
            ran.append(n)
            return [Verdict(n > 0)]

        def program(saver: Any) -> Any:
            @entrypoint(saver)
            async def flow(given: int) -> Any:
                return [(await judge(given))[0].good, interrupt("?")]

            return flow

        async with store.saver() as saver:
            await program(saver).ainvoke(1, at())
        async with store.again() as saver:
            assert await program(saver).ainvoke(Command(resume="yes"), at()) == [True, "yes"]
        assert ran == [1]

    async def test_another_one_is_refused_by_the_tasks_name(self, saver):
        """
        A value that can't be stored ends the run with an error that names the task and what to do.
        """

        @task
        async def judge(n: int) -> Any:
            return object()

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return await judge(given)

        with pytest.raises(SerializationError, match=r"(?s)writes of judge.*store plain data"):
            await flow.ainvoke(1, at())

    async def test_a_sync_function_may_return_an_awaitable(self):
        """
        A returned awaitable is awaited, as that of a sync node is.
        """

        async def later(n: int) -> int:
            return n + 1

        @task
        def step(n: int) -> Any:
            return later(n)

        @entrypoint()
        async def flow(given: int) -> Any:
            return await step(given)

        assert await flow.ainvoke(1) == 2
