"""The clock of a store: learned from a server's answers, right on machines whose own is wrong."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import anyio
import pytest

import actorgraph
from actorgraph import START, ActorSystem, PostgresSaver, SqliteSaver, StateGraph
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.storage.store_clock import StoreClock, clock_of, within_answer
from tests.support.gates import PATIENCE_S

HOUR_S = 3600.0
Shift = Callable[[float], None]


class State(TypedDict, total=False):
    done: bool


def graphs() -> dict[str, Any]:
    """A graph of one node."""
    built = StateGraph(State).add_node("n", lambda _: {"done": True}).add_edge(START, "n")
    return {"g": built.compile()}


@pytest.fixture
def shift(monkeypatch: pytest.MonkeyPatch) -> Shift:
    """Set the machine's clock wrong by some seconds."""
    wall, nanoseconds, by = time.time, time.time_ns, [0.0]
    monkeypatch.setattr(time, "time", lambda: wall() + by[0])
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(by[0] * 1e9))
    return lambda seconds: by.__setitem__(0, seconds)


class TestAnswers:
    @pytest.mark.parametrize(
        ("ahead", "answer", "sent", "received", "then"),
        [
            (None, 1000, 100, 120, 890),
            (890, 1000, 100, 120, 890),
            (0, 1000, 100, 120, 880),
            (5000, 1000, 100, 120, 900),
            (890, 31_000, 100, 60_100, 890),
        ],
    )
    def test_an_answer_bounds_the_difference(self, ahead, answer, sent, received, then):
        """
        The first answer gives the middle; later ones change no more than their bounds demand.
        """
        assert within_answer(ahead, answer, sent, received) == then

    def test_without_an_answer_it_is_the_machines(self, shift):
        """
        A store in files goes by the machine's clock, also after that was set.
        """
        clock = clock_of(object())
        shift(HOUR_S)
        assert abs(clock.now() - time.time_ns() // 1000) < 1e6

    def test_after_an_answer_the_machines_clock_does_not_count(self, shift):
        """
        A machine's clock that is set by an hour leaves the learned time as it was.
        """
        clock, sent = StoreClock(), time.monotonic_ns() // 1000
        clock.learn(5_000_000_000, sent)
        shift(HOUR_S)
        assert 0 <= clock.now() - 5_000_000_000 < PATIENCE_S * 1e6


@pytest.mark.parametrize("dispatcher", [None, InMemoryDispatcher])
class TestDelayedRuns:
    """Systems over one PostgreSQL server, on machines whose clocks are wrong."""

    async def test_none_begins_early(self, postgres, schema, shift, dispatcher):
        """
        A worker whose clock is an hour ahead leaves a run of half an hour's delay alone, and
        the time of the run is right though its system's clock was an hour behind.
        """
        url, engine = postgres.url, dispatcher and dispatcher()
        more = {"dispatcher": engine} if engine else {}
        began = datetime.now(UTC).timestamp()
        shift(-HOUR_S)
        async with (
            PostgresSaver(url, schema=schema) as saver,
            ActorSystem(graphs(), saver=saver, **more) as one,
        ):
            started = await one.start("g", "t", {}, delay_s=1800)
        shift(HOUR_S)
        async with (
            PostgresSaver(url, schema=schema) as saver,
            ActorSystem(graphs(), saver=saver, **more) as two,
        ):
            taken = await two.recover()
            (run,) = await two.runs(thread_id="t")
            waits, due = run.waits_for_time, run.due_at

        assert (run.id, taken, run.status, waits) == (started.id, [], "pending", True)
        assert due is not None
        assert abs(due.timestamp() - began - 1800) < 2 * PATIENCE_S

    async def test_none_begins_late(self, postgres, schema, shift, dispatcher):
        """
        A worker whose clock is an hour behind begins a run at its time, though the clock of the
        system that accepted it was an hour ahead.
        """
        url, engine = postgres.url, dispatcher and dispatcher()
        more = {"dispatcher": engine} if engine else {}
        shift(HOUR_S)
        async with (
            PostgresSaver(url, schema=schema) as saver,
            ActorSystem(graphs(), saver=saver, **more) as one,
        ):
            started = await one.start("g", "t", {}, delay_s=0.05)
        shift(-HOUR_S)
        with anyio.fail_after(PATIENCE_S):
            async with (
                PostgresSaver(url, schema=schema) as saver,
                ActorSystem(graphs(), saver=saver, **more) as two,
            ):
                await two.recover()
                run = await two.run(started.id)
                assert await run.wait() == "success"

    async def test_a_clock_that_is_set_meanwhile_changes_nothing(
        self, postgres, schema, shift, dispatcher
    ):
        """
        A clock that jumps by an hour while a run waits doesn't begin it.
        """
        more = {"dispatcher": dispatcher()} if dispatcher else {}
        async with (
            PostgresSaver(postgres.url, schema=schema) as saver,
            ActorSystem(graphs(), saver=saver, **more) as system,
        ):
            run = await system.start("g", "t", {}, delay_s=1800)
            shift(HOUR_S)
            assert await system.recover() == []
            assert run.waits_for_time


async def test_files_go_by_the_machines_clock(tmp_path, shift):
    """
    A run over a file begins when the machine's clock says so.
    """
    async with (
        SqliteSaver(tmp_path / "runs.db") as saver,
        ActorSystem(graphs(), saver=saver) as system,
    ):
        run = await system.start("g", "t", {}, delay_s=1800)
        shift(HOUR_S)
        assert not run.waits_for_time


OWN_CLOCK = re.compile(r"microseconds_now\(\)|time_ns\(\)|\btime\.time\(\)")
ABOUT_DUE = re.compile(
    r"\b(?:row|hint)\.due\b|waits_for_time\(|newest_of\(|without_later\(|ListWaiting\("
)
BY_MACHINE = {
    "savers/memory/systems.py": "its runs are of one process",
    "savers/sqlite/systems.py": "its files are of one machine",
    "savers/jsonl/systems.py": "its files are of one machine",
    "runtime/saver/thread_runs.py": "ages of claims, whose ids are of the machine",
    "cli/thread_reader.py": "shows threads; begins nothing",
    "cli/doctor/database_facts.py": "shows ages",
    "cli/system_figures_reader.py": "shows ages",
    "api/system/thread_finder.py": "ages of checkpoints, whose ids are of the machine",
}


def test_times_of_runs_are_compared_with_the_stores_clock():
    """
    A file about the times of runs asks the machine's clock only if it is listed, with the reason.
    """
    root = Path(actorgraph.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if ABOUT_DUE.search(text := path.read_text()) and OWN_CLOCK.search(text)
    }
    assert found == BY_MACHINE.keys()
