"""Calls of `@task` functions while they run: durability, drains, parts of a task, progress."""

from typing import Any

import anyio
import pytest

from actorgraph import (
    Command,
    GraphDrained,
    InMemorySaver,
    NodeTimeoutError,
    RunControl,
    TimeoutPolicy,
    entrypoint,
    interrupt,
    task,
)
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.testing import GatedSaver
from tests.support.gates import PATIENCE_S, Box, patient_group
from tests.support.graphs import at, chain, in_a_row
from tests.support.task_functions import Slow, plus

pytestmark = pytest.mark.every_saver


class TestDurability:
    @pytest.mark.promise("S072")
    @pytest.mark.langgraph("F-J4", "L101")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_finished_calls_outlive_the_process(self, store, durability):
        """
        A new saver over the same place knows what calls returned before the run failed.
        """
        ran: list[str] = []
        broken = ["once"]

        @task
        async def step(name: str) -> str:
            ran.append(name)
            return name

        def program(saver: Any) -> Any:
            @entrypoint(saver)
            async def flow(given: int) -> list[str]:
                both = [step("a"), step("b")]
                found = [await future for future in both]
                if broken:
                    raise OSError(broken.pop())
                return [*found, await step("c")]

            return flow

        async with store.saver() as saver:
            with pytest.raises(OSError, match="once"):
                await program(saver).ainvoke(1, at(), durability=durability)
        async with store.again() as saver:
            result = await program(saver).ainvoke(None, at(), durability=durability)

        assert result == ["a", "b", "c"]
        assert sorted(ran) == ["a", "b", "c"]

    @pytest.mark.promise("S072")
    @pytest.mark.langgraph("F-J8")
    async def test_a_caller_goes_on_before_its_calls_are_durable_and_readers_do_not(self):
        """
        The program doesn't wait for the disk between its steps; a chunk shows only what is stored.
        """
        chunks: list[Any] = []
        second = anyio.Event()

        @task
        async def step(n: int) -> int:
            if n == 2:
                second.set()
            return n

        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:

            @entrypoint(saver)
            async def flow(given: int) -> int:
                return await step(1) + await step(2)

            async def read() -> None:
                chunks.extend([c async for c in flow.astream(1, at(), stream_mode="updates")])

            group.start_soon(read)
            await saver.waiting()
            saver.release(1)
            await second.wait()
            assert chunks == []
            saver.release(None)

        assert chunks == [{"step": 1}, {"step": 2}, {"flow": 3}]

    @pytest.mark.langgraph("F-J7")
    async def test_a_cancelled_run_keeps_what_its_calls_returned(self, saver):
        """
        Work done before a cancellation is stored, and not done again.
        """
        ran: list[str] = []
        slow = Slow()
        waits = task(name="slow")(slow)

        @task
        async def step(name: str) -> str:
            ran.append(name)
            return name

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return [await step("a"), await waits()]

        async with anyio.create_task_group() as group:
            group.start_soon(flow.ainvoke, 1, at())
            await slow.began.wait()
            group.cancel_scope.cancel()
        slow.goes.set()

        assert await flow.ainvoke(None, at()) == ["a", "slow"]
        assert (ran, slow.ended) == (["a"], ["stopped", "returned"])


class TestRuns:
    async def test_a_drain_reaches_the_graph_in_a_call(self, saver):
        """
        A run that is to stop stops, resumable, although the graph that does the work runs in a
        task.
        """
        control = RunControl()
        log: list[str] = []
        inner = chain("ab", log)

        @task
        async def work() -> Any:
            control.request_drain("enough")
            return await inner.ainvoke({"bar": []})

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return (await work())["bar"]

        with pytest.raises(GraphDrained, match="enough"):
            await flow.ainvoke(1, at(), control=control)

        assert (await flow.aget_state(at())).next == ("flow",)

    async def test_parts_of_a_task_have_calls_of_their_own(self, saver):
        """
        Parts of one node that run at once find their own results again, in whatever order they
        call.
        """
        ran: list[str] = []
        order = [["x", "y"], ["y", "x"]]

        @task
        async def step(name: str) -> str:
            ran.append(name)
            return name.upper()

        async def node(state: Any) -> dict[str, Any]:
            whole = CURRENT.get()
            found: dict[str, str] = {}
            parts = whole.split(["x", "y"])
            for name in order.pop(0):
                token = CURRENT.set(parts["xy".index(name)])
                found[name] = await step(name)
                CURRENT.reset(token)
            whole.join(parts)
            return {"foo": found["x"] + found["y"] + interrupt("?")}

        graph = in_a_row({"node": node}, checkpointer=saver)
        await graph.ainvoke({"bar": []}, at())
        result = await graph.ainvoke(Command(resume="!"), at())

        assert result["foo"] == "XY!"
        assert ran == ["x", "y"]

    @pytest.mark.one_loop
    async def test_a_call_is_progress_of_its_caller(self):
        """
        A caller with an idle timeout is alive while its calls say so; what says nothing for too
        long is not.
        """
        beats = 6

        @task
        async def talks(n: int, *, writer: Any) -> int:
            for _ in range(beats):
                await anyio.sleep(0.1)
                writer("still here")
            return n

        @task
        async def silent() -> None:
            await anyio.sleep_forever()

        @entrypoint(timeout=TimeoutPolicy(idle_timeout=0.4))
        async def flow(given: int) -> Any:
            done = await talks(given)  # type: ignore[call-arg]
            await silent()
            return done

        with pytest.raises(NodeTimeoutError) as error:
            await flow.ainvoke(1)
        assert error.value.kind == "idle"
        assert error.value.elapsed > beats * 0.1

    @pytest.mark.langgraph("L113")
    async def test_max_concurrency_limits_calls(self):
        """
        No more calls run at once than the run allows.
        """
        running, most = 0, 0

        @task
        async def step(n: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await anyio.lowlevel.checkpoint()
            running -= 1
            return n

        @entrypoint()
        async def flow(given: int) -> int:
            return sum([await future for future in [step(n) for n in range(given)]])

        assert await flow.ainvoke(20, {"max_concurrency": 3}) == 190
        assert most == 3

    async def test_two_runs_call_at_once(self, saver):
        """
        The calls of two threads know nothing of each other.
        """
        box = [Box(), Box()]

        @entrypoint(saver)
        async def flow(given: int) -> int:
            return sum([await future for future in [plus(n) for n in range(given)]])

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                for n in (0, 1):
                    group.start_soon(box[n].fill, flow.ainvoke, n + 3, at(f"thread{n}"))

        assert [b.value for b in box] == [6, 10]
