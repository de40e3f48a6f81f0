"""A saver that somebody writes who has read docs/own-savers.md and nothing else."""

import os
import pickle
from contextlib import asynccontextmanager

import anyio.to_thread

from actorgraph.savers.memory import MemoryBackend
from actorgraph.testing import FaultySaver, check_saver
from tests.graphs import ab, at


class FileLog:
    """Appends each batch to a file, and waits until it is on the disk; reads it all when opened."""

    durable = True
    immediate = False

    def __init__(self, path):
        self.path = path

    async def open(self):
        self._memory = MemoryBackend()
        self._file = await anyio.to_thread.run_sync(lambda: self.path.open("ab+", buffering=0))
        self._file.seek(0)
        end = 0
        while True:
            try:
                batch = pickle.load(self._file)  # noqa: S301 - a test's own file
            except (EOFError, pickle.UnpicklingError):  # the end, or what a crash cut off
                break
            self._memory.commit_now(batch)
            end = self._file.tell()
        self._file.truncate(end)

    async def commit(self, batch):
        await anyio.to_thread.run_sync(self._append, pickle.dumps([*batch]))
        return self._memory.commit_now(batch)

    def _append(self, data):
        self._file.write(data)
        os.fsync(self._file.fileno())

    async def query(self, queries):
        return self._memory.query_now(queries)

    async def close(self):
        self._file.close()


async def test_it_keeps_the_whole_contract(tmp_path):
    """
    Forty lines over a file pass every check of the shipped suite, those of failures too.
    """
    stores = iter(range(1_000))

    @asynccontextmanager
    async def place():
        path = tmp_path / f"{next(stores)}.log"

        def make():
            return FileLog(path)

        make.failing = lambda plan: FaultySaver(make(), plan)  # as docs/own-savers.md says
        yield make

    report = await check_saver(place)

    assert report.passed, str(report)
    assert not [result for result in report.results if result.outcome == "left out"]


async def test_a_graph_runs_over_it(tmp_path):
    """
    A graph takes it as its checkpointer, and goes on after a crash in the middle of a write.
    """
    path = tmp_path / "runs.log"
    async with FaultySaver(FileLog(path)) as saver:
        await ab(saver).ainvoke({"foo": "", "bar": ["in"]}, at())
    path.write_bytes(path.read_bytes()[:-3])

    async with FaultySaver(FileLog(path)) as saver:
        assert (await ab(saver).aget_state(at())).values["bar"] == ["in", "a"]
        assert (await ab(saver).ainvoke(None, at()))["bar"] == ["in", "a", "b"]
