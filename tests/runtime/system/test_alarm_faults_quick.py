"""A part of tests/faults/test_alarms.py, small enough for every change."""

from functools import partial

import anyio.to_thread
import pytest

from tests.faults import alarm_crashes, alarm_kills, alarm_races
from tests.faults.test_alarms import ONCE, bad

PARTS = {"asyncio": (0, 8), "trio": (4, 8)}
"""Which part of the crash points each event loop has here."""


async def test_no_crash_loses_an_alarm_or_repeats_an_answer(anyio_backend):
    """
    After a crash at a commit the next system ends each thread with one answer, at its time.
    """
    seen = await alarm_crashes.crash_everywhere(PARTS[anyio_backend])

    assert bad(seen, alarm_crashes.JUDGED) == {}
    assert seen["points"] > 3


@pytest.mark.one_loop
async def test_killed_systems_lose_no_alarm(tmp_path, anyio_backend):
    """
    Threads that sleep and ask while their process is killed again and again end once, none early.
    """
    place = str(tmp_path / "threads.db")
    seen = await alarm_kills.kill_often(tmp_path, anyio_backend, "sleep", 6, lambda _: place)

    assert bad(seen, alarm_kills.JUDGED) == {}


@pytest.mark.one_loop
async def test_a_killed_step_in_doubt_is_not_repeated(tmp_path, anyio_backend):
    """
    Steps with `doubt=` are done once, whenever their process is killed.
    """
    place = str(tmp_path / "threads.db")
    seen = await alarm_kills.kill_often(tmp_path, anyio_backend, "charge", 4, lambda _: place)

    assert bad(seen, ("lost", "charged again")) == {}


@pytest.mark.one_loop
async def test_a_person_or_the_clock_answers(tmp_path, anyio_backend):
    """
    Of a person and the clock that answer at the same moment, here or elsewhere, one wins.
    """
    place = str(tmp_path / "threads.db")
    seen = await alarm_races.race_often(anyio_backend, place, tmp_path / "told", 40)

    assert bad(seen, alarm_races.JUDGED) == {}
    assert seen["races"] == 40


@pytest.mark.one_loop
async def test_one_of_several_systems_acts(postgres, schema, tmp_path, anyio_backend):
    """
    Alarms over a server fire once, in processes whose clocks are minutes apart, and none early.
    """
    place, told = f"{postgres.url}#{schema}", tmp_path / "told"
    work = partial(alarm_kills.share, anyio_backend, place, told, (0.0, 300.0), 2)
    seen = await anyio.to_thread.run_sync(work)

    assert bad(seen, ONCE) == {}
