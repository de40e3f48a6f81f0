"""Calls of `@task` functions in sync functions and threads."""

import concurrent.futures
import contextvars
import threading
from typing import Any

import anyio
import pytest

from actorgraph import NodeCancelledError, entrypoint, task
from actorgraph.runtime.task.calling import thread_limiter
from tests.support.gates import PATIENCE_S
from tests.support.task_functions import Slow, plus, plus_in_a_thread


class TestInThreads:
    @pytest.mark.langgraph("F-J3")
    async def test_the_tools_of_concurrent_futures_take_it(self):
        """
        wait() and as_completed() of the standard library work in sync functions.
        """

        @entrypoint()
        def flow(given: int) -> Any:
            futures = [plus_in_a_thread(n) for n in range(given)]
            done, left = concurrent.futures.wait(futures, timeout=PATIENCE_S)
            again = [plus(n) for n in range(given)]
            ended = concurrent.futures.as_completed(again, timeout=PATIENCE_S)
            return [sorted(f.result() for f in done), len(left), sorted(f.result() for f in ended)]

        assert await flow.ainvoke(3) == [[1, 2, 3], 0, [1, 2, 3]]

    @pytest.mark.langgraph("F-J5")
    async def test_errors_are_raised_or_returned(self):
        """
        result() raises what the function raised, exception() returns it.
        """

        @task
        def bad() -> None:
            raise ValueError("no")

        @entrypoint()
        def flow(given: int) -> Any:
            future = bad()
            with pytest.raises(ValueError, match="no"):
                future.result()
            return [str(future.exception()), plus_in_a_thread(given).exception()]

        assert await flow.ainvoke(1) == ["no", None]

    @pytest.mark.langgraph("F-J3")
    async def test_result_with_a_limit(self):
        """
        result(timeout) raises TimeoutError; the call goes on.
        """
        slow = Slow()
        step = task(name="slow")(slow)

        @entrypoint()
        def flow(given: int) -> str:
            future = step()
            with pytest.raises(TimeoutError):
                future.result(timeout=0.01)
            anyio.from_thread.run_sync(slow.goes.set)
            return future.result()

        assert await flow.ainvoke(1) == "slow"

    async def test_in_a_thread_that_the_loop_did_not_make(self):
        """
        Threads of the program's own may call tasks, in a copy of the node's context.
        """

        @entrypoint()
        def flow(given: int) -> list[int]:
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                work = [
                    pool.submit(contextvars.copy_context().run, lambda n=n: plus(n).result())
                    for n in range(given)
                ]
                return sorted(w.result(PATIENCE_S) for w in work)

        assert await flow.ainvoke(3) == [1, 2, 3]

    async def test_a_call_made_last_in_a_thread_runs(self):
        """
        A sync function may return at once after a call: the run still has the call run.
        """
        ran: list[int] = []

        @task
        async def late(n: int) -> None:
            ran.append(n)

        @entrypoint()
        def flow(given: int) -> str:
            late(given)
            return "done"

        for n in range(50):
            assert await flow.ainvoke(n) == "done"
        assert ran == list(range(50))

    async def test_waiting_threads_make_room_for_those_they_wait_for(self):
        """
        More sync callers than there are worker threads wait for sync calls, and all end.
        """
        limiter = thread_limiter()
        before, limiter.total_tokens = limiter.total_tokens, 20

        @task
        def inner(n: int) -> int:
            return n

        @task
        def outer(n: int) -> int:
            return inner(n).result(PATIENCE_S)

        @entrypoint()
        def flow(given: int) -> int:
            futures = [outer(n) for n in range(given)]
            return sum(future.result(PATIENCE_S) for future in futures)

        try:
            with anyio.fail_after(2 * PATIENCE_S):
                assert await flow.ainvoke(60) == sum(range(60))
            assert limiter.total_tokens == 20
        finally:
            limiter.total_tokens = before

    @pytest.mark.langgraph("F-J7")
    async def test_a_waiting_thread_ends_when_the_run_is_cancelled(self):
        """
        A sync function that waits for a call ends with the run that is cancelled.
        """
        slow = Slow()
        step = task(name="slow")(slow)
        errors: list[BaseException] = []
        ended = threading.Event()

        @entrypoint()
        def flow(given: int) -> None:
            try:
                step().result(PATIENCE_S)
            except BaseException as error:
                errors.append(error)
                raise
            finally:
                ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(flow.ainvoke, 1)
            await slow.began.wait()
            group.cancel_scope.cancel()

        assert await anyio.to_thread.run_sync(ended.wait, PATIENCE_S)
        assert [type(error) for error in errors] == [NodeCancelledError]
