"""Check the saver, with a worker that is killed.

    cd examples && python -m lmdb_saver

It prints the report of `check_saver`, and kills a process in the middle of a run, which this one
takes over.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

import anyio

from actorgraph.testing import FaultPlan, FaultySaver, check_killed_worker, check_saver
from actorgraph.testing.conformance import MakeSaver
from lmdb_saver.saver import LmdbSaver


class Maker:
    """Makes savers over one folder, as other processes would; also ones that fail."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self) -> LmdbSaver:
        """A saver."""
        return LmdbSaver(self._folder)

    def failing(self, plan: FaultPlan) -> FaultySaver:
        """A saver each of whose calls fails in its turn."""
        return FaultySaver(self(), plan)


@asynccontextmanager
async def place() -> AsyncGenerator[MakeSaver]:
    """An empty folder."""
    with TemporaryDirectory() as folder:
        yield Maker(folder)


async def main() -> None:
    """Check, and kill."""
    report = await check_saver(place)
    print(report)
    assert report.passed
    with TemporaryDirectory() as folder:
        os.environ["LMDB_FOLDER"] = folder
        await check_killed_worker("lmdb_saver.app:make_saver")
    print("a run of a killed worker was taken over")


if __name__ == "__main__":
    anyio.run(main)
