"""Endings of a process, of a node that exits, of a task cancelled while it closes a saver."""

import asyncio
import subprocess
import sys

import anyio
import pytest

from actorgraph import SqliteSaver
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, in_a_row


class Stubborn:
    """A node that is asked to stop, and takes its time."""

    def __init__(self) -> None:
        self.entered, self.asked, self.out = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, state: object) -> None:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.asked.set()
            with anyio.CancelScope(shield=True):
                await self.out.wait()


def leave(state: object) -> None:
    """A node that ends the program."""
    raise SystemExit(3)


class TestSavers:
    def test_a_cancelled_exit_waits_and_closes_the_saver(self, tmp_path):
        """
        Leaving the block while a run is leaving, and being cancelled in that, closes the saver.
        """

        async def main() -> None:
            node, leaving = Stubborn(), asyncio.Event()
            saver = SqliteSaver(tmp_path / "runs.db")

            async def use() -> None:
                async with saver:
                    stream = in_a_row({"node": node}, checkpointer=saver).astream({}, at())
                    reading = asyncio.create_task(anext(stream))
                    await node.entered.wait()
                    reading.cancel()
                    await node.asked.wait()
                    leaving.set()

            using = asyncio.create_task(use())
            await leaving.wait()
            await asyncio.sleep(0)
            using.cancel()
            await asyncio.sleep(0)
            node.out.set()
            with pytest.raises(asyncio.CancelledError):
                await using
            async with saver:
                assert await saver.aget_tuple(at()) is not None

        asyncio.run(asyncio.wait_for(main(), PATIENCE_S))

    def test_a_process_that_ends_closes_all_of_them(self, tmp_path):
        """
        A process that ends closes the savers that it used and did not close.
        """
        program = (
            "import sys\n"
            "from actorgraph import SqliteSaver\n"
            "savers = [SqliteSaver(f'{sys.argv[1]}/{n}.db') for n in range(3)]\n"
            "print([saver.get_tuple({'configurable': {'thread_id': 't'}}) for saver in savers])\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
        )

        assert ended.stdout.strip() == "[None, None, None]"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["0.db", "1.db", "2.db"]

    def test_a_process_ends_in_the_middle_of_a_stream(self, tmp_path):
        """
        A program that ends with a stream half read, and calls a graph in a destructor, ends.
        """
        program = (
            "import sys\n"
            "from tests.support.graphs import ab, at\n"
            "from actorgraph import SqliteSaver\n"
            "class Late:\n"
            "    def __del__(self):\n"
            "        graph.invoke({}, at('late'))\n"
            "late = Late()\n"
            "graph = ab(SqliteSaver(sys.argv[1]))\n"
            "stream = graph.stream({}, at())\n"
            "print(next(stream))\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "runs.db"],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )

        assert ended.stdout == "{'a': {'foo': 'a', 'bar': ['a']}}\n"
        assert "the interpreter is shutting down" in ended.stderr


class TestBlockingCalls:
    def test_a_node_that_exits_ends_its_call_and_no_other(self):
        """
        SystemExit of a node comes out of `invoke`, and the next call works.
        """
        with pytest.raises(SystemExit):
            in_a_row({"leave": leave}).invoke({})

        assert ab().invoke({})["bar"] == ["a", "b"]

    async def test_a_node_that_exits_in_a_nested_call_ends_that(self):
        """
        SystemExit of a graph inside of a sync node comes out of that node's `invoke`.
        """

        def outer(state):
            with pytest.raises(SystemExit):
                in_a_row({"leave": leave}).invoke({})
            return {"foo": "goes on"}

        assert (await in_a_row({"outer": outer}).ainvoke({}))["foo"] == "goes on"

    async def test_an_error_is_not_mistaken_for_a_missing_thread(self):
        """
        A graph inside of a sync node runs once, whatever the words of its error.
        """
        calls: list[int] = []

        def bad(state):
            calls.append(1)
            raise RuntimeError("no worker thread is free")

        with pytest.raises(RuntimeError, match="no worker thread is free"):
            await in_a_row({"outer": lambda _: in_a_row({"bad": bad}).invoke({})}).ainvoke({})

        assert calls == [1]


DAEMON = """
import sys, threading
from actorgraph import InMemorySaver
from tests.support.graphs import at, in_a_row

def plain(state):
    step.wait(0.001)

inside = in_a_row({"inner": plain})

def nested(state):
    inside.invoke({})

node = nested if sys.argv[1] == "nested" else plain
graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
step, enough = threading.Event(), threading.Semaphore(0)

def work():
    while True:
        graph.invoke({}, at())
        enough.release()

threading.Thread(target=work, daemon=True).start()
for _ in range(10):
    assert enough.acquire(timeout=30)
"""


@pytest.mark.parametrize("node", ["plain", "nested"])
def test_a_process_ends_in_a_call_of_a_daemon_thread(node):
    """
    A program whose daemon thread is in a blocking call ends without a crash.
    """
    command = [sys.executable, "-c", DAEMON, node]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (ended.returncode, ended.stderr) == (0, "")
