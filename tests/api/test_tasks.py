"""@task: steps that run once, in parallel, with questions, errors and retries."""

import asyncio
from typing import Any

import anyio
import pytest

from actorgraph import Command, InMemorySaver, RetryPolicy, entrypoint, get_config, interrupt, task
from tests.support.graphs import AB, at, in_a_row


def asked(result: Any) -> list[Any]:
    return [question.value for question in result["__interrupt__"]]


class TestTasks:
    @pytest.mark.langgraph("F-J3")
    async def test_run_beside_their_caller(self):
        """
        Calls that are not awaited yet run at once, all of them.
        """
        arrived: list[int] = []
        everybody = anyio.Event()

        @task
        async def meet(n: int) -> int:
            arrived.append(n)
            if len(arrived) == 3:
                everybody.set()
            await everybody.wait()
            return n

        @entrypoint()
        async def flow(given: Any) -> list[int]:
            futures = [meet(n) for n in range(3)]
            return [await f for f in futures]

        assert await flow.ainvoke(None or {}) == [0, 1, 2]

    @pytest.mark.langgraph("F-J4", "L101")
    @pytest.mark.parametrize("value", [None, 0, "", [], {"a": (1, 2)}])
    async def test_a_finished_task_is_not_run_again(self, saver, value):
        """
        After a question the function runs again, and its finished calls return what they had
        returned, falsy values too.
        """
        ran: list[str] = []

        @task
        async def step() -> Any:
            ran.append("step")
            return value

        @entrypoint(saver)
        async def flow(given: str) -> Any:
            ran.append("flow")
            return [await step(), interrupt("?")]

        await flow.ainvoke("x", at())
        result = await flow.ainvoke(Command(resume="yes"), at())

        assert ran == ["flow", "step", "flow"]
        assert result == [value, "yes"]

    @pytest.mark.langgraph("F-J4", "F-J5", "L101")
    async def test_going_on_after_a_failure(self, saver):
        """
        After a failure only the failed call runs again.
        """
        ran: list[str] = []
        broken = ["once"]

        @task
        async def good(n: int) -> int:
            ran.append(f"good{n}")
            return n

        @task
        async def bad() -> str:
            ran.append("bad")
            if broken:
                raise OSError(broken.pop())
            return "fine"

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return [await good(1), await good(2), await bad()]

        with pytest.raises(OSError, match="once"):
            await flow.ainvoke(1, at())
        result = await flow.ainvoke(None, at())

        assert ran == ["good1", "good2", "bad", "bad"]
        assert result == [1, 2, "fine"]

    @pytest.mark.langgraph("L101")
    async def test_an_error_is_the_callers(self, saver):
        """
        A caller may handle a call's error; the call still runs again on a resume.
        """
        ran: list[str] = []

        @task
        async def bad() -> None:
            ran.append("bad")
            raise ValueError("no")

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            try:
                await bad()
            except ValueError as error:
                return [str(error), interrupt("?")]

        await flow.ainvoke(1, at())
        result = await flow.ainvoke(Command(resume="go"), at())

        assert result == ["no", "go"]
        assert ran == ["bad", "bad"]

    @pytest.mark.langgraph("F-F8", "L59")
    async def test_a_question_in_a_task_is_reported_once(self, saver):
        """
        A call's question pauses the whole program, surfaces once, and its answer reaches the call.
        """
        ran: list[str] = []

        @task
        async def ask(what: str) -> str:
            ran.append(what)
            return f"{what}={interrupt(what)}"

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return [await ask("a"), await ask("b")]

        first = await flow.ainvoke(1, at())
        state = await flow.aget_state(at())
        second = await flow.ainvoke(Command(resume="1"), at())
        third = await flow.ainvoke(Command(resume="2"), at())

        assert (asked(first), asked(second), third) == (["a"], ["b"], ["a=1", "b=2"])
        assert [i.value for i in state.interrupts] == ["a"]
        assert ran == ["a", "a", "b", "b"]

    @pytest.mark.langgraph("F-F4", "F-F8")
    async def test_parallel_questions_are_answered_by_id(self, saver):
        """
        Two calls that ask at once both surface; answers by id, one by one, reach each.
        """

        @task
        async def ask(what: str) -> str:
            return f"{what}={interrupt(what)}"

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            futures = [ask("a"), ask("b")]
            return [await f for f in futures]

        first = await flow.ainvoke(1, at())
        by_value = {i.value: i.id for i in first["__interrupt__"]}
        second = await flow.ainvoke(Command(resume={by_value["b"]: "2"}), at())
        third = await flow.ainvoke(Command(resume={by_value["a"]: "1"}), at())

        assert sorted(by_value) == ["a", "b"]
        assert asked(second) == ["a"]
        assert third == ["a=1", "b=2"]

    @pytest.mark.langgraph("L113")
    @pytest.mark.parametrize("sync", [False, True])
    async def test_a_waiting_caller_holds_no_place(self, sync):
        """
        With max_concurrency=1 a caller gives its place to the call that it waits for, at any
        depth.
        """

        @task
        async def inner(n: int) -> int:
            return n + 1

        @task
        async def outer(n: int) -> int:
            return await inner(n) + 10

        async def waits(given: int) -> int:
            return await outer(given) + await outer(given)

        def blocks(given: int) -> int:
            return outer(given).result() + outer(given).result()

        flow = entrypoint()(blocks if sync else waits)

        with anyio.fail_after(10):
            assert await flow.ainvoke(1, {"max_concurrency": 1}) == 24

    @pytest.mark.langgraph("L109")
    async def test_a_retried_caller_finds_its_finished_calls(self):
        """
        A retry counts calls from the start again, so finished calls are not repeated.
        """
        ran: list[str] = []
        broken = ["once"]

        @task
        async def step(n: int) -> int:
            ran.append(f"step{n}")
            return n

        policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)

        @entrypoint(retry_policy=policy)
        async def flow(given: int) -> int:
            first = await step(1)
            if broken:
                raise ConnectionError(broken.pop())
            return first + await step(2)

        assert await flow.ainvoke(1) == 3
        assert ran == ["step1", "step2"]

    @pytest.mark.langgraph("F-J3")
    async def test_a_task_is_retried_by_its_own_policy(self):
        """
        A task has retries of its own; its caller sees only the last outcome.
        """
        attempts: list[int] = []
        policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)

        @task(retry_policy=policy)
        async def flaky() -> int:
            attempts.append(1)
            if len(attempts) < 3:
                raise ConnectionError("again")
            return len(attempts)

        @entrypoint()
        async def flow(given: int) -> int:
            return await flaky()

        assert await flow.ainvoke(1) == 3

    @pytest.mark.langgraph("F-J3")
    async def test_a_call_that_is_not_awaited(self, saver):
        """
        The run waits for calls that its function did not wait for.
        """
        ended: list[str] = []
        goes = anyio.Event()

        @task
        async def slow() -> None:
            await goes.wait()
            ended.append("slow")

        @entrypoint(saver)
        async def flow(given: int) -> str:
            slow()
            goes.set()
            return "done"

        assert await flow.ainvoke(1, at()) == "done"
        assert ended == ["slow"]
        assert (await flow.aget_state(at())).next == ()

    @pytest.mark.langgraph("F-J7")
    async def test_a_failing_caller_cancels_its_calls(self):
        """
        When the function fails, the calls that still run are cancelled.
        """
        cancelled = anyio.Event()
        started = anyio.Event()

        @task
        async def waits() -> None:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        @entrypoint()
        async def flow(given: int) -> None:
            waits()
            await started.wait()
            raise ValueError("enough")

        with pytest.raises(ValueError, match="enough"):
            await flow.ainvoke(1)
        assert cancelled.is_set()

    @pytest.mark.langgraph("F-J6")
    async def test_in_a_node_of_a_graph(self, saver):
        """
        Nodes of a StateGraph call tasks too, and tasks call tasks.
        """
        ran: list[str] = []

        @task
        async def inner(n: int) -> str:
            ran.append("inner")
            return get_config()["configurable"]["thread_id"] * n

        @task
        async def outer(n: int) -> str:
            ran.append("outer")
            return await inner(n)

        async def node(state: AB) -> dict[str, Any]:
            return {"foo": await outer(2), "bar": [interrupt("?")]}

        graph = in_a_row({"node": node}, checkpointer=saver)
        await graph.ainvoke({"bar": []}, at())
        result = await graph.ainvoke(Command(resume="x"), at())

        assert result == {"foo": "tt", "bar": ["x"]}
        assert ran == ["outer", "inner"]

    @pytest.mark.langgraph("F-J6")
    async def test_an_entrypoint_inside_of_a_task(self, saver):
        """
        An entrypoint may be a step of another one, with tasks and questions.
        """

        @task
        async def ask(what: str) -> str:
            return f"{what}={interrupt(what)}"

        @entrypoint()
        async def child(given: str) -> str:
            return await ask(given)

        @task
        async def step(given: str) -> str:
            return await child.ainvoke(given)

        @entrypoint(saver)
        async def flow(given: str) -> str:
            return await step(given)

        first = await flow.ainvoke("q", at())

        assert asked(first) == ["q"]
        assert await flow.ainvoke(Command(resume="a"), at()) == "q=a"

    async def test_a_thousand_calls(self):
        """
        Many calls of one function are fine, in any order.
        """

        @task
        async def step(n: int) -> int:
            return n

        @entrypoint()
        async def flow(given: int) -> int:
            futures = [step(n) for n in range(given)]
            return sum([await f for f in reversed(futures)])

        assert await flow.ainvoke(1000) == 499500


@pytest.mark.langgraph("F-J3")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_futures_are_awaitables_of_asyncio():
    """
    asyncio.gather takes the futures of calls.
    """

    @task
    async def step(n: int) -> int:
        return n

    @entrypoint(InMemorySaver())
    async def flow(given: int) -> list[int]:
        return list(await asyncio.gather(*[step(n) for n in range(given)]))

    assert await flow.ainvoke(3, at()) == [0, 1, 2]
