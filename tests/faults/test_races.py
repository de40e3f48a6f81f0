"""Races on one thread, a thousand threads in one file, and many answers to one question."""

import time

import pytest

from tests.faults.crashes import report, row
from tests.faults.crowds import many_threads, one_thread, resumes
from tests.faults.scenarios import MODES

# How many savers of one file run against each other, as if each were a process.
PROCESSES = 4


@pytest.mark.promise("S068", "B4")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("mode", MODES)
async def test_of_twenty_runs_on_one_thread_the_losers_run_nothing(
    mode, kind, tmp_path, request, anyio_backend
):
    """
    Runs at once on one thread: each winner's update is there once, and each loser gets a
    ConflictError before its first node.
    """
    seen = await one_thread(kind, mode, tmp_path / "store.db", 20, 1)

    what = f"20 runs on one thread, {mode}, {kind}"
    report(request.config, "many at once", row(what, anyio_backend, dict(seen)))
    assert seen["won"] + seen["lost"] == 20
    assert seen["won"] >= 1
    assert seen["node runs of winners"] == 3 * seen["won"]
    assert seen["node runs of losers"] == 0
    assert (seen["updates lost"], seen["steps lost"]) == (0, 0)


@pytest.mark.promise("S005", "S010", "B2")
@pytest.mark.parametrize("mode", MODES)
async def test_a_thousand_threads_run_at_once_in_one_file(mode, tmp_path, request, anyio_backend):
    """
    Each of 1,000 threads that run at once is read back right, and none has an error.
    """
    began = time.monotonic()
    seen = await many_threads(mode, tmp_path / "store.db", 1_000)

    what = f"1,000 threads, {mode}, {time.monotonic() - began:.1f} s"
    report(request.config, "many at once", row(what, anyio_backend, dict(seen)))
    assert (seen["errors"], seen["read back right"]) == (0, 1_000)


@pytest.mark.promise("B4")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("mode", MODES)
async def test_of_fifty_answers_to_one_question_one_is_taken(
    mode, kind, tmp_path, request, anyio_backend
):
    """
    A question is answered once: its node runs once more, and 49 calls get AlreadyResumed.
    """
    seen = await resumes(kind, mode, tmp_path / "store.db", 50, 1)

    what = f"50 answers to one question, {mode}, {kind}"
    report(request.config, "many at once", row(what, anyio_backend, dict(seen)))
    assert dict(seen) == {"taken": 1, "refused": 49, "node runs": 2, "answers in the state": 1}


@pytest.mark.promise("S068", "B4")
@pytest.mark.parametrize("mode", MODES)
async def test_runs_of_several_processes_lose_no_update(mode, tmp_path, request, anyio_backend):
    """
    Against other processes too, a run that returns has stored its update once, and any other gets
    a ConflictError; at its next save where one that came later took the thread over.
    """
    seen = await one_thread("sqlite", mode, tmp_path / "store.db", 20, PROCESSES)

    what = f"20 runs on one thread, {mode}, {PROCESSES} savers of one file"
    report(request.config, "many at once", row(what, anyio_backend, dict(seen)))
    assert seen["won"] + seen["lost"] == 20
    assert seen["won"] >= 1
    # One that was taken over may have stored its input and first steps: there may be more.
    assert max(seen["updates lost"], seen["steps lost"]) <= 0


@pytest.mark.promise("B4")
@pytest.mark.parametrize("mode", MODES)
async def test_answers_of_several_processes_count_once(mode, tmp_path, request, anyio_backend):
    """
    Of answers that several processes give to one question, one is in the state; the others get
    AlreadyResumed, or a ConflictError when a later one took the thread over.
    """
    seen = await resumes("sqlite", mode, tmp_path / "store.db", 50, PROCESSES)

    what = f"50 answers to one question, {mode}, {PROCESSES} savers of one file"
    report(request.config, "many at once", row(what, anyio_backend, dict(seen)))
    assert (seen["taken"], seen["answers in the state"]) == (1, 1)
    assert seen["refused"] + seen["taken over"] == 49
