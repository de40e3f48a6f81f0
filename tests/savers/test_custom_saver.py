"""A custom saver, written from docs/own-savers.md and nothing else."""

import os
from contextlib import asynccontextmanager
from typing import get_args

import anyio.to_thread
import msgspec
import pytest

from actorgraph.savers.memory.saver import MemoryBackend
from actorgraph.testing import FaultySaver, check_saver
from actorgraph.values.commits import Request
from tests.support.graphs import ab, at

KINDS = {kind.__name__: kind for kind in get_args(Request)}


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
        for line in self._file:
            if not line.endswith(b"\n"):  # what a crash cut off
                break
            batch = [
                msgspec.json.decode(raw, type=KINDS[name])
                for name, raw in msgspec.json.decode(line, type=list[tuple[str, msgspec.Raw]])
            ]
            self._memory.commit_now(batch)
            end += len(line)
        self._file.truncate(end)

    async def commit(self, batch):
        line = msgspec.json.encode([(type(request).__name__, request) for request in batch])
        await anyio.to_thread.run_sync(self._append, line + b"\n")
        return self._memory.commit_now(batch)

    def _append(self, data):
        self._file.write(data)
        os.fsync(self._file.fileno())

    async def query(self, queries):
        return self._memory.query_now(queries)

    async def close(self):
        self._file.close()


@pytest.mark.one_loop
async def test_it_keeps_the_whole_contract(tmp_path):
    """
    A few lines over a file pass every check of the shipped suite, those of failures too.
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
    left_out = {result.check.group for result in report.results if result.outcome == "left out"}
    assert left_out == {"runs", "alarms"}  # it stores no runs of systems


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
