"""Alarms of questions and sleeps: crashes, kills, several systems, persons who answer in time.

What really happened is in a list or a file outside of every store; `timed_graph.py` has the graphs,
`alarm_worker.py` is the program that is killed.
"""

from collections import Counter
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from tests.faults import alarm_crashes, alarm_kills, alarm_races
from tests.faults.crashes import report, row

SAVERS = pytest.mark.parametrize("kind", ["sqlite", "jsonl", "postgres"])
SHARED = pytest.mark.parametrize("kind", ["sqlite", "postgres"])
"""Savers that several processes may use at once."""
KILLS = 50
"""Of each saver on each event loop: 300."""
CHARGE_KILLS = 20
RACES = 500
"""Of each shared saver on each event loop: 2,000."""
WRONG_S = (0.0, 300.0, -300.0, 600.0)
"""By how much the clocks of four processes are ahead."""


@pytest.fixture
def place(request, kind, tmp_path):
    """Makes the place of the n-th database."""
    if kind == "postgres":
        postgres = request.getfixturevalue("postgres")
        return lambda number: f"{postgres.url}#{postgres.new_schema('alarms')}"
    return lambda number: str(tmp_path / f"threads{number}.{ENDINGS[kind]}")


def folder_of(request: pytest.FixtureRequest) -> Path:
    """The test's own folder."""
    return request.getfixturevalue("tmp_path")


ENDINGS = {"sqlite": "db", "jsonl": "jsonl"}


def bad(seen: Counter[str], names: tuple[str, ...]) -> dict[str, int]:
    """Those of some counters that should be 0 and aren't."""
    return {name: seen[name] for name in names if seen[name]}


async def test_no_crash_loses_an_alarm_or_repeats_an_answer(request, anyio_backend):
    """
    At whichever commit the store fails, before or after it, the next system ends each thread with
    one answer, at its time; a function is called again only for the commit that failed.
    """
    seen = await alarm_crashes.crash_everywhere()

    names = ("points", *alarm_crashes.JUDGED, "reminded again")
    report(request.config, "alarms, crash points", row(anyio_backend, *(seen[n] for n in names)))
    assert bad(seen, alarm_crashes.JUDGED) == {}
    assert seen["points"] > 20


@SAVERS
async def test_killed_systems_lose_no_alarm(kind, place, tmp_path, request, anyio_backend):
    """
    Threads that sleep and ask while their process is killed again and again end once, none before
    its time, and do nothing again that was stored.
    """
    seen = await alarm_kills.kill_often(tmp_path, anyio_backend, "sleep", KILLS, place)

    names = ("kills", "threads", *alarm_kills.JUDGED, *REPEATS)
    line = row(kind, anyio_backend, *(seen[name] for name in names))
    report(request.config, "alarms, kill -9", line)
    assert bad(seen, alarm_kills.JUDGED) == {}


REPEATS = ("effects", "effects again", "reminders", "reminders again")


@SAVERS
@pytest.mark.parametrize("job", ["charge", "charge again"])
async def test_a_killed_step_in_doubt_is_not_repeated(kind, job, place, request, anyio_backend):
    """
    Steps with `doubt=` are done once, whenever their process is killed; without it some are
    repeated.
    """
    kills = CHARGE_KILLS if job == "charge" else CHARGE_KILLS // 2
    seen = await alarm_kills.kill_often(folder_of(request), anyio_backend, job, kills, place)

    figures = (seen[name] for name in ("kills", "charges", "charged again", "lost"))
    how = "doubt=" if job == "charge" else "without"
    report(request.config, "steps in doubt, kill -9", row(kind, how, anyio_backend, *figures))
    assert seen["lost"] == 0
    assert seen["charged again"] == 0 or job != "charge"


@SHARED
async def test_a_person_or_the_clock_answers(kind, place, tmp_path, request, anyio_backend):
    """
    Of a person and the clock that answer at the same moment, in the same process or in two, one
    wins; the thread goes on once, with the answer of the winner.
    """
    told = tmp_path / "told"
    seen = await alarm_races.race_often(anyio_backend, place(0), told, RACES)

    lost = {name: times for name, times in seen.items() if name.startswith("lost")}
    figures = (seen[name] for name in ("races", "won by the person", *alarm_races.JUDGED))
    said = ", ".join(f"{name.removeprefix('lost, ')} {times}" for name, times in lost.items())
    line = row(kind, anyio_backend, *figures, said)
    report(request.config, "a person against an alarm", line)
    assert bad(seen, alarm_races.JUDGED) == {}
    assert seen["races"] == RACES
    assert 0 < seen["won by the person"] < RACES


@SHARED
@pytest.mark.parametrize("processes", [2, 4])
async def test_one_of_several_systems_acts(kind, processes, place, request, anyio_backend):
    """
    Each alarm of threads that several processes look at fires once, none early; processes over a
    server may have wrong clocks.
    """
    ahead_s = WRONG_S[:processes] if kind == "postgres" else (0.0,) * processes
    work = partial(
        alarm_kills.share, anyio_backend, place(0), folder_of(request) / "told", ahead_s, 8
    )
    seen = await anyio.to_thread.run_sync(work)

    names = ("effects", "effects again", "reminders", "reminders again", "lost", "early", "late ms")
    line = row(kind, f"{processes}", anyio_backend, *(seen[name] for name in names))
    report(request.config, "alarms of several systems", line)
    assert bad(seen, ONCE) == {}


ONCE = ("lost", "early", "run again", "effects again", "reminders again")
