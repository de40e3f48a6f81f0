"""Blocking reads inside a running event loop: which savers allow them, and what is refused."""

import threading

import anyio
import pytest

from actorgraph import InMemorySaver, JsonlSaver, PostgresSaver, SaverRequiredError, SqliteSaver
from actorgraph.api import blocking
from actorgraph.errors import RunningLoopError
from actorgraph.testing import GatedSaver
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import ab, at, history, in_a_row, writer


def reads(graph, saver):
    """Each blocking read of a thread, by the name of its async twin."""
    return {
        "aget_state": lambda: graph.get_state(at()),
        "aget_state_history": lambda: list(graph.get_state_history(at())),
        "aget_tuple": lambda: saver.get_tuple(at()),
        "aget": lambda: saver.get(at()),
        "alist": lambda: list(saver.list(at())),
    }


@pytest.fixture(params=["memory", "sqlite", "in one file of memory", "jsonl"])
def local(request, tmp_path):
    """A saver in memory or in files, which the test doesn't open."""
    made = {
        "memory": InMemorySaver,
        "sqlite": lambda: SqliteSaver(tmp_path / "runs.db"),
        "in one file of memory": lambda: SqliteSaver(":memory:"),
        "jsonl": lambda: JsonlSaver(tmp_path / "runs"),
    }[request.param]()
    yield made
    made.close_blocking()


class Slow(SqliteSaver):
    """Its reads take until they are released."""

    def __init__(self, path) -> None:
        super().__init__(path)
        self.released = threading.Event()

    async def query(self, queries):
        await anyio.to_thread.run_sync(self.released.wait)
        return await super().query(queries)


class TestSaversInMemoryAndInFiles:
    async def test_reads_give_what_their_twins_give(self, local):
        """
        A web handler may call `get_state` and the like on the loop that has run the graph.
        """
        graph = ab(local)
        await graph.ainvoke({}, at())
        snapshots = await history(graph, at())

        made = {name: read() for name, read in reads(graph, local).items()}

        assert made["aget_state"] == snapshots[0]
        assert made["aget_state_history"] == snapshots
        assert made["aget_tuple"] == await local.aget_tuple(at())
        assert made["aget"] == made["aget_tuple"].checkpoint
        assert made["alist"] == [found async for found in local.alist(at())]

    async def test_a_run_of_the_same_loop_may_be_in_the_middle(self, local):
        """
        A run that this loop must finish doesn't hold the read, which shows its stored part.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=local)

        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, at())
            await slow.entered.wait()
            found = graph.get_state(at())
            slow.out.set()

        assert (found.values["bar"], found.next) == (["a"], ("slow",))

    async def test_an_async_node_may_read(self, local):
        """
        A node on the application's loop reads its own thread.
        """
        seen: list = []

        async def look(state):
            seen.append(graph.get_state(at()).next)

        graph = in_a_row({"look": look}, checkpointer=local)
        await graph.ainvoke({}, at())

        assert seen == [("look",)]

    async def test_a_node_of_the_background_thread_may_not(self):
        """
        A blocking call runs async nodes in the thread that would have to answer.
        """
        raised: list = []

        async def look(state):
            with pytest.raises(RunningLoopError, match="aget_state") as refused:
                graph.get_state(at())
            raised.append(refused.value)

        graph = in_a_row({"look": look}, checkpointer=InMemorySaver())
        await anyio.to_thread.run_sync(graph.invoke, {}, at())

        assert len(raised) == 1

    async def test_an_unknown_thread_has_no_state(self, local):
        """
        The first use of a saver may be such a read.
        """
        graph = ab(local)

        assert graph.get_state("nobody") is None
        assert graph.get_state(at("nobody")).values == {}


class TestRefused:
    @pytest.mark.parametrize("kind", [SqliteSaver, JsonlSaver])
    async def test_a_saver_that_this_loop_has_opened(self, kind, tmp_path):
        """
        The loop would have to answer while it is blocked; each error names the async twin.
        """
        async with kind(tmp_path / "runs") as saver:
            for name, read in reads(ab(saver), saver).items():
                with pytest.raises(RunningLoopError, match=rf"await (graph\.)?{name}\("):
                    read()

    async def test_savers_behind_a_network_or_of_other_code(self):
        """
        Their reads may take long, or need this very loop.
        """
        for saver in (PostgresSaver("postgresql://nowhere"), GatedSaver(InMemorySaver())):
            for name, read in reads(ab(saver), saver).items():
                with pytest.raises(RunningLoopError, match=name):
                    read()

    async def test_writes_and_runs(self, local):
        """
        Only reads are allowed.
        """
        graph = ab(local)
        calls = {
            "ainvoke": lambda: graph.invoke({}, at()),
            "astream": lambda: graph.stream({}, at()),
            "aupdate_state": lambda: graph.update_state(at(), {}),
            "adelete_thread": lambda: local.delete_thread("t"),
        }
        for name, call in calls.items():
            with pytest.raises(RunningLoopError, match=name):
                call()

    async def test_a_graph_without_a_saver_says_so(self):
        """
        The error is about the missing checkpointer, as outside of a loop.
        """
        with pytest.raises(SaverRequiredError, match="get_state"):
            ab(None).get_state(at())

    async def test_a_read_that_takes_too_long_is_given_up(self, tmp_path, monkeypatch):
        """
        The loop goes on after a while, whatever the saver waits for.
        """
        monkeypatch.setattr(blocking, "READ_S", 0.05)
        saver = Slow(tmp_path / "runs.db")
        graph = ab(saver)

        with pytest.raises(RunningLoopError, match=r"blocked the running event loop for 0\.05 s"):
            graph.get_state(at())

        saver.released.set()
        assert (await graph.aget_state(at())).values == {}
        saver.close_blocking()
