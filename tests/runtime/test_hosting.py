"""Hosts of a saver's actors: the task that opened it, else one background thread of the process."""

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from types import ModuleType

import anyio
import pytest
import trio

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.errors import RunningLoopError, SaverClosedError, StorageError
from actorgraph.testing import GatedSaver
from tests.support.gates import patient_group
from tests.support.graphs import ab, at, count, in_a_row, writer

pytestmark = pytest.mark.every_saver

WHO: ContextVar[str] = ContextVar("who", default="nobody")


def in_threads(functions: list[Callable[[], None]]) -> None:
    """Run each in a thread of its own, all at once; raise the first error."""
    errors: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


class TestUnopened:
    @pytest.mark.promise("S188")
    async def test_a_bare_call_works(self, store):
        """
        A saver that was not opened is hosted by the background thread.
        """
        saver = store.saver()
        graph = ab(saver)

        result = await graph.ainvoke({}, at())
        rows = await count(graph, at())
        await anyio.to_thread.run_sync(saver.close_blocking)

        assert (result["bar"], rows) == (["a", "b"], 4)

    async def test_a_test_double_works_unopened_too(self):
        """
        Any object with the port's methods can be a checkpointer, opened or not.
        """
        saver = GatedSaver(InMemorySaver(), is_open=True)

        result = await ab(saver).ainvoke({}, at())
        await anyio.to_thread.run_sync(saver.close_blocking)

        assert result["bar"] == ["a", "b"]
        assert len(saver.batches) == 3

    async def test_a_path_that_cannot_be_opened_is_an_error_of_the_call(self, tmp_path):
        """
        Each user of a saver that can't be opened gets the reason.
        """
        graph = ab(SqliteSaver(tmp_path / "no" / "such" / "folder.db"))

        with pytest.raises(StorageError, match="can't create the database file"):
            await graph.ainvoke({}, at())

    @pytest.mark.promise("S107")
    @pytest.mark.langgraph("F-E27")
    def test_a_memory_saver_is_collected(self):
        """
        An unreferenced saver is freed with what it stored.
        """
        saver = InMemorySaver()
        ab(saver).invoke({}, at())
        gone = weakref.ref(saver)

        del saver
        gc.collect()

        assert gone() is None


class TestManyLoops:
    @pytest.mark.promise("S225", "S230")
    def test_loops_and_threads_use_one_saver_at_once(self, store):
        """
        Runs in several asyncio and trio loops and blocking calls share one saver.
        """
        with store.saver() as saver:
            graph = ab(saver)

            async def several(name: str) -> None:
                async with anyio.create_task_group() as group:
                    for n in range(5):
                        group.start_soon(graph.ainvoke, {}, at(f"{name}-{n}"))

            def in_loop(name: str, backend: str) -> Callable[[], None]:
                return lambda: anyio.run(several, name, backend=backend)

            def blocking(name: str) -> None:
                for n in range(5):
                    graph.invoke({}, at(f"{name}-{n}"))

            names = ["asyncio-1", "asyncio-2", "trio-1", "trio-2", "plain-1", "plain-2"]
            in_threads(
                [
                    partial(blocking, name) if name[0] == "p" else in_loop(name, name.split("-")[0])
                    for name in names
                ]
            )
            ends = [graph.get_state(at(f"{n}-{k}")).values for n in names for k in range(5)]

        assert ends == [{"foo": "b", "bar": ["a", "b"]}] * 30

    def test_a_saver_opened_in_one_loop_serves_another(self, tmp_path):
        """
        While a saver is open in a trio loop, an asyncio loop in another thread can use it.
        """
        results: list = []

        async def owner() -> None:
            async with SqliteSaver(tmp_path / "runs.db") as saver:
                graph = ab(saver)
                work = lambda: asyncio.run(graph.ainvoke({}, at("guest")))  # noqa: E731
                results.append(await trio.to_thread.run_sync(work))
                results.append(await graph.ainvoke({}, at("own")))

        trio.run(owner)

        assert [r["bar"] for r in results] == [["a", "b"]] * 2

    def test_a_loop_goes_on_while_another_thread_imports_trio(self, monkeypatch):
        """
        A run on asyncio takes no notice of a trio that is being imported.
        """
        monkeypatch.setitem(sys.modules, "trio", ModuleType("trio"))

        assert asyncio.run(ab().ainvoke({}))["bar"] == ["a", "b"]


class TestOpening:
    def test_a_saver_that_cannot_open_fails_at_its_with_line(self, tmp_path):
        """
        A folder that is missing is reported when the block begins, not by the first run in it.
        """
        saver = SqliteSaver(tmp_path / "missing" / "runs.db")
        with pytest.raises(StorageError, match="missing"):
            saver.__enter__()
        (tmp_path / "missing").mkdir()

        with saver:
            assert ab(saver).invoke({"foo": "x"}, at())["foo"] == "b"

    @pytest.mark.promise("S101", "S231")
    @pytest.mark.langgraph("F-E28")
    def test_a_with_block_closes_the_file_and_reopening_sees_the_data(self, tmp_path):
        """
        `with SqliteSaver.from_conn_string(path)` is LangGraph's way in.
        """
        path = tmp_path / "checkpoints.db"
        with SqliteSaver.from_conn_string(str(path)) as checkpointer:
            ab(checkpointer).invoke({"foo": "x"}, at())
        with SqliteSaver.from_conn_string(str(path)) as checkpointer:
            found = ab(checkpointer).get_state(at())

        assert found.values == {"foo": "b", "bar": ["a", "b"]}
        assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoints.db"]

    @pytest.mark.promise("S188")
    async def test_async_with_does_the_same(self, store):
        """
        `async with` opens in the running loop; a later saver sees what was stored.
        """
        async with store.saver() as saver:
            await ab(saver).ainvoke({}, at())
        async with store.again() as saver:
            rows = await count(ab(saver), at())

        assert rows == 4

    async def test_a_saver_is_opened_once(self, tmp_path):
        """
        Opening an open saver is refused, and doesn't close it.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            with pytest.raises(SaverClosedError, match="open or in use"):
                await saver.__aenter__()
            result = await ab(saver).ainvoke({}, at())

        assert result["bar"] == ["a", "b"]

    async def test_with_is_refused_in_a_loop(self, tmp_path):
        """
        `with saver` would block the running loop, and says so.
        """
        with pytest.raises(RunningLoopError, match="async with"), SqliteSaver(tmp_path / "r.db"):
            pass

    async def test_an_error_while_opening_is_raised(self, tmp_path):
        """
        `async with` on an impossible path raises, and leaves nothing running.
        """
        (tmp_path / "file").write_text("no database, but much longer than its header would be" * 9)

        with pytest.raises((StorageError, BaseExceptionGroup)) as raised:
            async with SqliteSaver(tmp_path / "file"):
                pass

        assert isinstance(raised.value, StorageError)

    async def test_a_run_left_over_when_the_saver_closes_hears_it(self, tmp_path):
        """
        Leaving the saver's block ends the runs that still use it with SaverClosedError.
        """
        errors: list[BaseException] = []
        entered, out = anyio.Event(), anyio.Event()

        async def slow(state):
            entered.set()
            await out.wait()

        async def run(graph) -> None:
            try:
                await graph.ainvoke({}, at())
            except SaverClosedError as error:
                errors.append(error)

        async with patient_group() as group:
            async with SqliteSaver(tmp_path / "runs.db") as saver:
                graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=saver)
                group.start_soon(run, graph)
                await entered.wait()
            out.set()

        assert [type(e) for e in errors] == [SaverClosedError]


class TestTheFacade:
    async def test_it_refuses_inside_a_loop_and_names_the_async_method(self, saver):
        """
        Each blocking method that runs or changes something names its async twin; reads of a
        saver in memory are allowed.
        """
        graph = ab(saver)
        calls = {
            "ainvoke": lambda: graph.invoke({}, at()),
            "astream": lambda: graph.stream({}, at()),
            "aupdate_state": lambda: graph.update_state(at(), {}),
            "adelete_thread": lambda: saver.delete_thread("t"),
        }

        for name, call in calls.items():
            with pytest.raises(RunningLoopError, match=name):
                call()

    def test_every_method_has_a_blocking_twin(self, store):
        """
        invoke, stream, get_state, get_state_history and update_state do what their twins do.
        """
        with store.saver() as saver:
            graph = ab(saver)
            result = graph.invoke({}, at())
            chunks = list(graph.stream({}, at("s"), stream_mode="updates"))
            graph.update_state(at(), {"foo": "edited"})
            state = graph.get_state(at())
            rows = list(graph.get_state_history(at(), limit=2))

        assert result["bar"] == ["a", "b"]
        assert [next(iter(c)) for c in chunks] == ["a", "b"]
        assert (state.values["foo"], state.metadata["source"]) == ("edited", "update")
        assert [s.metadata["step"] for s in rows] == [3, 2]

    @pytest.mark.parametrize("how", ["invoke", "stream"])
    def test_nodes_see_the_callers_context(self, how):
        """
        A contextvar set before a blocking call is set in the nodes.
        """
        seen: list[str] = []

        async def look(state):
            seen.append(WHO.get())

        graph = in_a_row({"look": look})
        token = WHO.set("caller")
        list(graph.stream({})) if how == "stream" else graph.invoke({})
        WHO.reset(token)

        assert seen == ["caller"]

    def test_a_stream_that_is_left_ends_its_run(self, store):
        """
        Leaving a blocking stream early ends the run, and the thread is free.
        """
        log: list[str] = []
        with store.saver() as saver:
            graph = in_a_row({n: writer(n, log) for n in "abc"}, checkpointer=saver)
            stream = graph.stream({}, at())
            first = next(stream)
            stream.close()
            result = graph.invoke(None, at())

        assert list(first) == ["a"]
        assert result["bar"] == ["a", "b", "c"]

    def test_errors_of_nodes_come_out_as_they_are(self):
        """
        `invoke` raises what the node raised.
        """

        def bad(state):
            raise KeyError("boom")

        with pytest.raises(KeyError, match="boom"):
            in_a_row({"bad": bad}).invoke({})


class TestNesting:
    def test_sixty_nested_calls_at_once_do_not_deadlock(self, tmp_path):
        """
        60 sync nodes at once may each call another graph with a sync node in it.
        """

        def leaf(state):
            return {"bar": ["leaf"]}

        with SqliteSaver(tmp_path / "runs.db") as saver:
            inner = in_a_row({"leaf": leaf}, checkpointer=saver)

            def outer_node(state):
                name = f"inner-{state['foo']}"
                return {"bar": inner.invoke({}, at(name))["bar"]}

            outer = in_a_row({"outer": outer_node}, checkpointer=saver)

            async def sixty() -> None:
                async with anyio.create_task_group() as group:
                    for n in range(60):
                        group.start_soon(outer.ainvoke, {"foo": str(n)}, at(f"outer-{n}"))

            in_threads([lambda: anyio.run(sixty)])
            ends = [outer.get_state(at(f"outer-{n}")).values["bar"] for n in range(60)]

        assert ends == [["leaf"]] * 60

    async def test_nested_calls_use_more_threads_than_the_limit(self, monkeypatch):
        """
        A sync node that waits for a nested call gives its thread's place back meanwhile.
        """
        monkeypatch.setattr("actorgraph.runtime.task.calling.MAX_THREADS", 2)
        inner = in_a_row({"leaf": lambda state: {"bar": ["leaf"]}})
        outer = in_a_row({"outer": lambda state: inner.invoke({})})

        results = []

        async def one() -> None:
            results.append(await outer.ainvoke({}))

        async with patient_group() as group:
            for _ in range(8):
                group.start_soon(one)

        assert [r["bar"] for r in results] == [["leaf"]] * 8
