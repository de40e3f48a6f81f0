"""Waits of readers for news of runs in other processes."""

import time

import anyio
import anyio.to_thread
import pytest

from actorgraph.runtime.system.news_waits import NewsWaits
from tests.dispatch.fleet import soon
from tests.support.gates import settled

RUN, OTHER = b"r" * 16, b"o" * 16


class Reader:
    """A reader that waits, looks, and waits again.

    Attributes:
        looks: how often it has looked.
    """

    def __init__(self, waits, run=RUN):
        self.looks = 0
        self._pause = waits.pause_of(run, time.monotonic())

    async def read(self):
        while True:
            await self._pause()
            self.looks += 1

    async def looks_within(self, waits, seconds):
        """
        Whether its next look comes after this time, and not a moment before.
        """
        before, earliest = self.looks, self._begun
        waits.end_due(earliest + seconds - 0.001)
        await settled()
        if self.looks != before:
            return False
        waits.end_due(time.monotonic() + seconds)
        self._begun = time.monotonic()
        await settled()
        return self.looks == before + 1

    async def start(self, group):
        self._begun = time.monotonic()
        group.start_soon(self.read)
        await settled()


@pytest.fixture
async def group():
    """
    A task group that is cancelled at the end.
    """
    async with soon(), anyio.create_task_group() as made:
        yield made
        made.cancel_scope.cancel()


class TestWithoutNews:
    async def test_a_quiet_run_is_looked_at_less_often(self, group):
        """
        The first look without news comes after 2 s, then after 4 s, then every 8 s.
        """
        waits = NewsWaits(lambda: False)
        reader = Reader(waits)
        await reader.start(group)

        for seconds in (2.0, 4.0, 8.0, 8.0, 8.0):
            assert await reader.looks_within(waits, seconds), seconds

    async def test_news_make_looks_frequent_again(self, group):
        """
        After news of its run, and of no other, a reader looks as soon as at first.
        """
        waits = NewsWaits(lambda: False)
        reader, quiet = Reader(waits), Reader(waits, OTHER)
        await reader.start(group)
        await quiet.start(group)
        waits.end_due(time.monotonic() + 2.0)
        await settled()
        assert (reader.looks, quiet.looks) == (1, 1)

        group.start_soon(waits.wake_readers)
        waits.note([RUN])
        while reader.looks == 1:  # noqa: ASYNC110 - woken by a task
            await anyio.sleep(0.01)

        waits.end_due(time.monotonic() + 2.0)
        await settled()
        assert (reader.looks, quiet.looks) == (3, 1)

    async def test_all_look_often_while_no_news_come(self, group):
        """
        While the engine brings no news, runs that have been quiet for long are looked at too.
        """
        hurried = False
        waits = NewsWaits(lambda: hurried)
        reader = Reader(waits)
        await reader.start(group)
        for seconds in (2.0, 4.0):
            assert await reader.looks_within(waits, seconds)

        hurried = True
        assert await reader.looks_within(waits, 2.0)
        hurried = False
        assert await reader.looks_within(waits, 8.0)


class TestEnds:
    async def test_waits_end_with_the_system(self, group):
        """
        Waits that are left end, and later ones too: nothing else would end them.
        """
        waits = NewsWaits(lambda: False)
        reader = Reader(waits)
        await reader.start(group)
        waits.end()
        await settled()
        assert reader.looks == 1

        while reader.looks < 3:  # noqa: ASYNC110 - by a task
            await anyio.sleep(0.01)

    async def test_news_end_the_wait_of_another_loop(self, group, anyio_backend_name):
        """
        A reader in another thread's loop is woken by news.
        """
        waits, run = NewsWaits(lambda: False), anyio.run
        group.start_soon(waits.wake_readers)
        pause = waits.pause_of(RUN, time.monotonic())

        async def note():
            while RUN not in waits._waits:  # noqa: ASYNC110, SLF001 - joins in its thread
                await anyio.sleep(0.01)
            waits.note([RUN])

        group.start_soon(note)
        await anyio.to_thread.run_sync(lambda: run(pause, backend=anyio_backend_name))

        assert not waits._waits  # noqa: SLF001 - what its readers leave behind
