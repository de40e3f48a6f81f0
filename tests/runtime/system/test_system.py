"""Runs of an ActorSystem: started, watched, cancelled, queued, drained."""

import anyio
import pytest

from actorgraph import (
    ActorSystem,
    Command,
    InMemorySaver,
    InvalidConfigError,
    ResultTimeoutError,
    RunCancelledError,
    RunNotFoundError,
    SystemBusyError,
    ThreadBusyError,
    interrupt,
)
from actorgraph.errors import OtherLoopError
from tests.support.every_saver import Store
from tests.support.gates import Turnstile
from tests.support.graphs import ab, at, chain, count, in_a_row, writer
from tests.support.systems import kinds, place, system_of, turnstile_first

pytestmark = pytest.mark.every_saver

__all__ = ["place"]


class TestRuns:
    async def test_a_run_outlives_who_started_it(self, place: Store):
        """
        The run lives in the system: the task that started it may be long gone.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow)) as system:
            async with anyio.create_task_group() as request:

                async def handle():
                    runs.append(await system.start("g", "t", {"bar": ["x"]}))
                    request.cancel_scope.cancel()

                runs = []
                request.start_soon(handle)
            await slow.entered.wait()
            assert runs[0].status == "running"
            slow.out.set()

            assert await runs[0].result() == {"foo": "b", "bar": ["x", "a", "b"]}
            assert (await system.run(runs[0].id)).status == "success"

    async def test_events_have_offsets_and_end(self, place: Store):
        """
        Every event has the next offset, and a reader that comes late reads the same.
        """
        async with system_of(place, ab()) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            first = [event async for event in run.events()]
            again = [event async for event in run.events(after=3)]

        assert [event.offset for event in first] == list(range(1, len(first) + 1))
        assert [e.kind for e in first] == [
            *("metadata", "values", "updates", "values", "updates", "values", "end"),
        ]
        assert first[-1].data == {"status": "success", "reason": ""}
        assert again == first[3:]

    async def test_a_failed_run_reports_its_error(self, place: Store):
        """
        The result raises what the node raised; events and the run's row say it in words.
        """

        async def broken(state):
            raise KeyError("gone")

        async with system_of(place, in_a_row({"a": broken})) as system:
            run = await system.start("g", "t", {})
            with pytest.raises(KeyError):
                await run.result()
            told = [event async for event in run.events()]
            runs = await system.runs(statuses=["error"])

        assert (told[-2].kind, told[-2].data["error"]) == ("error", "KeyError")
        assert [(r.id, r.reason) for r in runs] == [(run.id, "KeyError: 'gone'")]

    @pytest.mark.parametrize("anyio_backend", ["trio"])
    async def test_ctrl_c_in_a_function_cancels_its_run(self, place: Store):
        """
        The run has not failed, and its thread goes on. (Such an error ends asyncio's loop.)
        """
        errors: list[BaseException] = [KeyboardInterrupt()]

        async def stopped(state):
            if errors:
                raise errors.pop()
            return {"bar": ["a"]}

        async with system_of(place, in_a_row({"a": stopped})) as system:
            run = await system.start("g", "t", {})
            with pytest.raises(KeyboardInterrupt):
                await run.result()
            rows = await system.runs(statuses=["cancelled"])
            again = await (await system.start("g", "t", None)).result()

        assert [(r.id, r.reason) for r in rows] == [(run.id, "KeyboardInterrupt")]
        assert again["bar"] == ["a"]

    async def test_answers_resume_a_thread(self, place: Store):
        """
        A run that asks is interrupted; `resume` starts the one that answers.
        """

        async def ask(state):
            return {"bar": [interrupt("name?")]}

        async with system_of(place, in_a_row({"a": ask})) as system:
            run = await system.start("g", "t", {"bar": []})
            asked = await run.result()
            answered = await system.resume("g", "t", "Ada")

            assert run.status == "interrupted"
            assert asked["__interrupt__"][0].value == "name?"
            assert (await answered.result())["bar"] == ["Ada"]
            again = await system.start("g", "u", {})
            await again.result()
            more = await system.resume("g", "u", Command(resume="Bob"))
            assert (await more.result())["bar"] == ["Bob"]

    async def test_a_result_can_be_waited_for_in_time(self, place: Store):
        """
        A wait that is over leaves the run alone.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow)) as system:
            run = await system.start("g", "t", {})
            await slow.entered.wait()
            with pytest.raises(ResultTimeoutError):
                await run.result(timeout_s=0.01)
            slow.out.set()

            assert await system.join(run.id) == {"foo": "b", "bar": ["a", "b"]}

    async def test_bad_calls_are_refused_before_anything_is_written(self, place: Store):
        """
        A refused start leaves no run behind.
        """
        async with system_of(place, ab()) as system:
            for graph, options in (
                ("h", {}),
                ("g", {"if_busy": "maybe"}),
                ("g", {"durability": "never"}),
                ("g", {"stream_mode": "nothing"}),
                ("g", {"metadata": {"a": object()}}),
                ("g", {"config": {"configurable": 3}}),
            ):
                with pytest.raises(InvalidConfigError):
                    await system.start(graph, "t", {}, **options)
            with pytest.raises(RunNotFoundError):
                await system.run("no such run")

            assert await system.runs() == []
        with pytest.raises(InvalidConfigError):
            ActorSystem({}, max_runs=0)

    async def test_a_thread_is_made_for_a_run_that_names_none(self, place: Store):
        """
        Every run has a thread of its own then.
        """
        async with system_of(place, ab()) as system:
            runs = [await system.start("g", None, {"bar": []}) for _ in range(2)]
            results = [await run.result() for run in runs]

        assert results == [{"foo": "b", "bar": ["a", "b"]}] * 2
        assert runs[0].thread_id != runs[1].thread_id


class TestCancel:
    async def test_a_cancelled_run_keeps_what_it_did(self, place: Store):
        """
        Its finished tasks are stored; its result says that it was cancelled, and why.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "b": slow})
        async with system_of(place, graph) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            status = await system.cancel(run.id, "the user left")
            with pytest.raises(RunCancelledError) as raised:
                await run.result()
            state = await system.graphs["g"].aget_state(at())

        assert (status, raised.value.reason) == ("cancelled", "the user left")
        assert (state.values["bar"], state.next) == (["x", "a"], ("b",))
        assert slow.closed == 1

    async def test_a_run_that_waits_never_begins(self, place: Store):
        """
        Cancelling a queued run leaves the thread to those behind it.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow)) as system:
            runs = [
                await system.start("g", "t", {"bar": [name]}, if_busy="enqueue") for name in "xyz"
            ]
            assert await runs[1].cancel() == "cancelled"
            slow.out.set()

            assert (await runs[2].result())["bar"] == ["x", "a", "b", "z", "a", "b"]
            assert await kinds(runs[1].events()) == ["end"]


class TestBusyThreads:
    async def test_reject(self, place: Store):
        """
        The second run is refused with the id of the first, and writes nothing.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow)) as system:
            run = await system.start("g", "t", {"bar": ["x"]})
            with pytest.raises(ThreadBusyError) as raised:
                await system.start("g", "t", {"bar": ["y"]})
            slow.out.set()
            result = await run.result()
            runs = await system.runs()

        assert (raised.value.thread_id, raised.value.run_id) == ("t", run.id)
        assert result["bar"] == ["x", "a", "b"]
        assert [r.id for r in runs] == [run.id]

    async def test_enqueue(self, place: Store):
        """
        Runs of a thread begin in the order in which they came, one after the other.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow), max_waiting=2) as system:
            runs = [
                await system.start("g", "t", {"bar": [name]}, if_busy="enqueue") for name in "xyz"
            ]
            with pytest.raises(SystemBusyError):
                await system.start("g", "t", {}, if_busy="enqueue")
            await slow.entered.wait()
            statuses = [run.status for run in runs]
            slow.out.set()
            results = [await run.result() for run in runs]

        assert statuses == ["running", "pending", "pending"]
        assert results[2]["bar"] == ["x", "a", "b", "y", "a", "b", "z", "a", "b"]

    async def test_interrupt(self, place: Store):
        """
        The run that goes on is cancelled and keeps what it stored; the new one builds on it.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "b": slow})
        async with system_of(place, graph) as system:
            first = await system.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            slow.out.set()
            second = await system.start("g", "t", {"bar": ["y"]}, if_busy="interrupt")
            result = await second.result()

        assert (first.status, second.status) == ("cancelled", "success")
        assert second.id in first.reason
        assert result["bar"] == ["x", "a", "y", "a"]

    async def test_rollback(self, place: Store):
        """
        The rows of the active run are removed; the new one starts from what was before.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "b": slow})
        async with system_of(place, graph) as system:
            slow.out.set()
            before = await system.start("g", "t", {"bar": ["w"]})
            await before.result()
            slow.out, slow.entered = anyio.Event(), anyio.Event()
            first = await system.start("g", "t", {"bar": ["x"]})
            await slow.entered.wait()
            slow.out.set()
            second = await system.start("g", "t", {"bar": ["y"]}, if_busy="rollback")
            result = await second.result()
            left = await count(system.graphs["g"], at())

        assert first.status == "cancelled"
        assert result["bar"] == ["w", "a", "y", "a"]
        assert left == 8  # two runs of four checkpoints

    async def test_another_thread_can_not_start_a_run(self, anyio_backend_name):
        """
        A system belongs to the loop that opened it; from another one a run is refused at once.
        """
        async with ActorSystem({"g": ab(None)}) as system:

            def elsewhere():
                anyio.run(system.start, "g", "t", {}, backend=anyio_backend_name)

            with pytest.raises(OtherLoopError, match="another thread"):
                await anyio.to_thread.run_sync(elsewhere)
            run = await system.start("g", "t", {})
            result = await run.result()

        assert result["bar"] == ["a", "b"]

    async def test_threads_know_nothing_of_each_other(self, place: Store):
        """
        A busy thread keeps no other one waiting.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, turnstile_first(slow)) as system:
            runs = [await system.start("g", f"t{n}", {"bar": []}) for n in range(20)]
            slow.out.set()
            results = [await run.result() for run in runs]

        assert [result["bar"] for result in results] == [["a", "b"]] * 20


class TestBounds:
    async def test_runs_beyond_the_bounds_wait_and_are_refused(self, place: Store):
        """
        `max_runs` go on, `max_queued` wait, the next gets the time of its retry.
        """
        slow = Turnstile({"bar": ["a"]})
        options = {"max_runs": 2, "max_queued": 1, "retry_after_s": 7.0}
        async with system_of(place, turnstile_first(slow), **options) as system:
            runs = [await system.start("g", f"t{n}", {"bar": []}) for n in range(3)]
            with pytest.raises(SystemBusyError) as raised:
                await system.start("g", "t3", {"bar": []})
            figures = system.statistics()
            slow.out.set()
            results = [await run.result() for run in runs]

        assert raised.value.retry_after_s == 7.0
        assert (figures.active, figures.queued, figures.refused) == (2, 1, 1)
        assert figures.saturated
        assert [result["bar"] for result in results] == [["a", "b"]] * 3

    async def test_sync_nodes_have_threads_of_the_system(self, place: Store):
        """
        `max_threads` bounds the sync nodes that run at once.
        """
        seen = []

        def node(state):
            seen.append(system.statistics().worker_threads)
            return {"bar": ["a"]}

        async with system_of(place, in_a_row({"a": node}), max_threads=1) as system:
            runs = [await system.start("g", f"t{n}", {"bar": []}) for n in range(4)]
            for run in runs:
                await run.result()

        assert seen == [1] * 4


@pytest.mark.one_loop
async def test_three_hundred_threads_at_once(tmp_path):
    """
    All end, and nothing of any is lost.
    """
    place = Store("sqlite", tmp_path)
    async with system_of(place, chain("ab"), max_runs=100) as system:
        runs = [
            await system.start("g", f"t{n}", {"bar": [str(n)]}, stream_mode=()) for n in range(300)
        ]
        results = [(await run.result())["bar"] for run in runs]
        figures = system.statistics()

    assert results == [[str(n), "a", "b"] for n in range(300)]
    assert figures.left == {"success": 300}


class Plain(InMemorySaver):
    """A saver that knows nothing of systems."""

    keeps_runs = False


async def test_a_saver_that_keeps_no_runs_will_do():
    """
    Within its process a system works over any saver; it stores no events there.
    """
    async with ActorSystem({"g": ab()}, saver=Plain()) as system:
        runs = [await system.start("g", "t", {"bar": []}, if_busy="enqueue") for _ in range(2)]
        results = [(await run.result())["bar"] for run in runs]
        with pytest.raises(InvalidConfigError):
            await system.start("g", "t", {}, resumable=True)
        listed = [run.id for run in await system.runs(thread_id="t")]

        assert results == [["a", "b"], ["a", "b", "a", "b"]]
        assert listed == [run.id for run in runs]
        assert await system.recover() == []
