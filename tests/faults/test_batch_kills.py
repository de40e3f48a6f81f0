"""A batch of 3,000 threads, stopped twice by Ctrl-C and once by `kill -9`, and run again."""

import ast
import random
import signal
import time

import pytest

from tests.support.batch_worker import LEASE_S, POLL_SECONDS, BatchPlace, run_after_ack

THREADS = 3000
MOMENTS = 120
STOPS = ((600, signal.SIGINT), (1400, signal.SIGKILL), (2300, signal.SIGINT))


def whole_batch(place):
    """Stop the batch at points that are spread over it, and hold what is left to the ledger."""
    for acknowledged, sent in STOPS:
        errors = place.stop_at(acknowledged, sent)
        if sent == signal.SIGINT:
            assert "run the same batch again to go on" in errors
    before = place.runs()
    counts = ast.literal_eval(place.run())
    runs = place.runs()

    assert (counts["done"], counts["failed"], counts["waiting"]) == (THREADS, 0, 0)
    assert place.acknowledged() == {str(number) for number in range(THREADS)}
    assert run_after_ack(place.lines()) == []
    # A node that ran when the process ended may run again; what was stored never does.
    assert set(runs) == place.acknowledged()
    assert sum(runs.values()) - THREADS <= len(STOPS) * place.concurrency
    assert sum(before.values()) < THREADS
    assert counts["skipped"] >= STOPS[-1][0]


@pytest.mark.parametrize("system", [True, False], ids=["map", "map_threads"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_sqlite(backend, system, tmp_path):
    """
    Each result once, none missing, none done twice, whichever way the passes ended.
    """
    whole_batch(BatchPlace(tmp_path, backend, THREADS, system=system))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_on_postgres(backend, postgres, tmp_path):
    """
    The same over PostgreSQL, by a system.
    """
    with postgres.borrow("saver") as schema:
        whole_batch(
            BatchPlace(tmp_path, backend, THREADS, system=True, url=postgres.url, schema=schema)
        )


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_process_that_was_stopped_longer_than_its_lease(tmp_path, backend):
    """
    Its runs are taken up again under its new lease: no thread of the batch counts as failed.
    """
    place = BatchPlace(tmp_path, backend, 300, system=True, concurrency=3)
    with place.start() as process:
        while len(place.acknowledged()) < 20:
            time.sleep(POLL_SECONDS)
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.6 * LEASE_S)
        process.send_signal(signal.SIGCONT)
        printed, _ = process.communicate(timeout=60)
    counts = ast.literal_eval(printed)

    assert (counts["done"], counts["failed"]) == (300, 0)
    assert run_after_ack(place.lines()) == []


@pytest.mark.parametrize("system", [True, False], ids=["map", "map_threads"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_at_any_moment_ends_a_batch(backend, system, tmp_path):
    """
    Whichever line of the program or of the library the signal comes at, the process ends, and the
    next pass has what is missing. On trio it comes in the task that runs at that moment.
    """
    choices = random.Random(f"{backend} {system}")
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        folder.mkdir()
        place = BatchPlace(folder, backend, 30, system=system, concurrency=3)
        place.stop_at(choices.randrange(1, 15), signal.SIGINT)
        counts = ast.literal_eval(place.run())

        assert (counts["done"], counts["failed"]) == (30, 0)
        assert run_after_ack(place.lines()) == []
