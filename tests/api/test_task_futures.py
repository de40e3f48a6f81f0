"""Results of calls of a `@task` function: a future for coroutines, threads and their libraries."""

import asyncio
import sys
from typing import Any

import anyio
import pytest

from actorgraph import (
    LostErrorWarning,
    NodeCancelledError,
    NodeTimeoutError,
    RetryPolicy,
    entrypoint,
    task,
)
from actorgraph.errors import OutsideRunError, RunningLoopError
from tests.support.gates import PATIENCE_S
from tests.support.task_functions import Slow, plus

asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)


class TestInCoroutines:
    @pytest.mark.langgraph("F-J3")
    async def test_a_future_may_be_awaited_twice(self):
        """
        It keeps its value, and says whether it is there.
        """

        @entrypoint()
        async def flow(given: int) -> Any:
            future = plus(given)
            early = future.done()
            return [await future, await future, early, future.done(), future.result()]

        assert await flow.ainvoke(1) == [2, 2, False, True, 2]

    async def test_result_is_refused_where_it_would_stop_the_loop(self):
        """
        In the event loop result() and exception() of a running call raise, and say what to do.
        """

        @entrypoint()
        async def flow(given: int) -> int:
            future = plus(given)
            with pytest.raises(RunningLoopError, match="'plus'"):
                future.result()
            with pytest.raises(RunningLoopError, match="await"):
                future.exception()
            return await future

        assert await flow.ainvoke(1) == 2

    @pytest.mark.langgraph("F-J3")
    @asyncio_only
    async def test_everything_of_asyncio_takes_it(self):
        """
        gather, wait, wait_for, as_completed and shield work on futures of calls.
        """

        @entrypoint()
        async def flow(given: int) -> Any:
            gathered = await asyncio.gather(*[plus(n) for n in range(given)])
            done, left = await asyncio.wait([plus(n) for n in range(given)])
            waited = await asyncio.wait_for(asyncio.shield(plus(7)), PATIENCE_S)
            completed = [await f for f in asyncio.as_completed([plus(1), plus(2)])]
            return [gathered, sorted(f.result() for f in done), len(left), waited, completed]

        gathered, done, left, waited, completed = await flow.ainvoke(3)

        assert (gathered, done, left, waited) == ([1, 2, 3], [1, 2, 3], 0, 8)
        assert sorted(completed) == [2, 3]

    @pytest.mark.langgraph("F-J3")
    @asyncio_only
    async def test_wait_returns_at_the_first_one(self):
        """
        asyncio.wait leaves the calls that still run alone.
        """
        slow = Slow()
        step = task(name="slow")(slow)

        @entrypoint()
        async def flow(given: int) -> Any:
            futures = [step(), plus(given)]
            done, left = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            slow.goes.set()
            return [len(done), len(left), await left.pop()]

        assert await flow.ainvoke(1) == [1, 1, "slow"]

    @pytest.mark.langgraph("F-J3")
    async def test_in_a_task_group_of_the_programs_own(self):
        """
        Tasks that a node starts may call and wait.
        """

        @entrypoint()
        async def flow(given: int) -> list[int]:
            found: list[int] = []

            async def one(n: int) -> None:
                found.append(await plus(n))

            async with anyio.create_task_group() as group:
                for n in range(given):
                    group.start_soon(one, n)
            return sorted(found)

        assert await flow.ainvoke(3) == [1, 2, 3]


class TestStopping:
    @pytest.mark.langgraph("F-J7")
    async def test_cancelling_a_waiting_caller_stops_the_call(self, saver):
        """
        A time limit around an `await` ends the call too, and the run doesn't wait for it.
        """
        slow = Slow()
        step = task(name="slow")(slow)

        @entrypoint(saver)
        async def flow(given: int) -> str:
            with anyio.CancelScope() as scope:
                future = step()
                await slow.began.wait()
                scope.cancel()
                await future
            return "gave up"

        with anyio.fail_after(PATIENCE_S):
            result = await flow.ainvoke(1, {"configurable": {"thread_id": "t"}})

        assert (result, slow.ended) == ("gave up", ["stopped"])

    @pytest.mark.langgraph("F-J7")
    async def test_cancel_stops_a_call(self):
        """
        cancel() stops a running call, its waiters get NodeCancelledError; a call that has ended
        can't be cancelled.
        """
        slow = Slow()
        step = task(name="slow")(slow)

        @entrypoint()
        async def flow(given: int) -> Any:
            future, done = step(), plus(given)
            await slow.began.wait()
            await done
            asked = [future.cancel(), done.cancel()]
            with pytest.raises(NodeCancelledError, match="'slow'"):
                await future
            return asked

        with anyio.fail_after(PATIENCE_S):
            assert await flow.ainvoke(1) == [True, False]
        assert slow.ended == ["stopped"]

    @pytest.mark.langgraph("F-J5", "F-J7")
    async def test_a_failing_call_has_its_own_calls_stopped(self):
        """
        Its caller sees the error when they have stopped.
        """
        slow = Slow()
        step = task(name="slow")(slow)

        @task
        async def outer() -> None:
            step()
            await slow.began.wait()
            raise ValueError("outer")

        @entrypoint()
        async def flow(given: int) -> Any:
            with pytest.raises(ValueError, match="outer"):
                await outer()
            return list(slow.ended)

        with anyio.fail_after(PATIENCE_S):
            assert await flow.ainvoke(1) == ["stopped"]

    async def test_an_attempt_that_ran_out_of_time_makes_its_calls_anew(self):
        """
        The call that the first attempt waited for was stopped; the second attempt's runs.
        """
        ran: list[int] = []

        @task
        async def first_hangs() -> int:
            ran.append(1)
            if len(ran) == 1:
                await anyio.sleep_forever()
            return len(ran)

        policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=NodeTimeoutError)

        @entrypoint(timeout=0.2, retry_policy=policy)
        async def flow(given: int) -> int:
            return await first_hangs()

        with anyio.fail_after(PATIENCE_S):
            assert await flow.ainvoke(1) == 2


class TestLosing:
    @pytest.mark.langgraph("F-J5")
    async def test_an_error_that_no_caller_awaits_is_a_warning(self):
        """
        The run goes on as if the call had not failed, with a warning that names the task.
        """
        failed = anyio.Event()

        @task
        async def bad() -> None:
            failed.set()
            raise ValueError("lost")

        @entrypoint()
        async def flow(given: int) -> str:
            future = bad()
            while not future.done():
                await anyio.lowlevel.checkpoint()
            return "done"

        with pytest.warns(LostErrorWarning, match=r"'bad' raised ValueError\('lost'\)"):
            assert await flow.ainvoke(1) == "done"

    @pytest.mark.langgraph("F-J5")
    async def test_so_is_one_that_comes_after_its_caller_returned(self):
        """
        A call that was left behind and fails later is reported too.
        """

        @task
        async def bad() -> None:
            raise ValueError("lost")

        @entrypoint()
        async def flow(given: int) -> str:
            bad()
            return "done"

        with pytest.warns(LostErrorWarning, match="'flow' returned without waiting"):
            assert await flow.ainvoke(1) == "done"

    async def test_a_call_made_after_its_caller_returned_is_refused(self):
        """
        A coroutine that a node leaves running can't start steps in its name any more.
        """
        errors: list[str] = []
        returned = anyio.Event()

        async def straggler() -> None:
            await returned.wait()
            try:
                plus(1)
            except OutsideRunError as error:
                errors.append(str(error))

        async with anyio.create_task_group() as group:

            @entrypoint()
            async def flow(given: int) -> int:
                group.start_soon(straggler)
                return await plus(given)

            assert await flow.ainvoke(1) == 2
            returned.set()

        assert "'flow' called a task after its attempt had ended" in errors[0]


def test_a_thousand_calls_take_no_more_each_than_a_hundred():
    """
    The work for a call, counted in function calls of Python, doesn't grow with the number of
    calls, under a limit or without one.
    """

    @entrypoint()
    async def flow(given: int) -> int:
        return sum([await future for future in [plus(n) for n in range(given)]])

    def work(calls: int, config: dict[str, Any]) -> float:
        count = 0

        def counted(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(counted)
        try:
            anyio.run(flow.ainvoke, calls, config)
        finally:
            sys.setprofile(None)
        return count / calls

    for config in ({}, {"max_concurrency": 8}):
        assert work(1000, config) < 1.5 * work(100, config)
