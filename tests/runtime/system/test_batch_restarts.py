"""A batch in a process of its own, stopped by Ctrl-C and by `kill -9`, and run again.

With 3,000 threads, on both event loops and on PostgreSQL: `tests/faults/test_batch_kills.py`.
"""

import ast
import signal

from tests.support.batch_worker import BatchPlace, run_after_ack

THREADS = 30


def test_a_stopped_batch_goes_on_where_it_was(tmp_path):
    """
    Each result once, none missing; a thread whose result was given never runs again.
    """
    place = BatchPlace(tmp_path, "trio", THREADS, system=True, concurrency=3)

    errors = place.stop_at(6, signal.SIGINT)
    place.stop_at(15, signal.SIGKILL)
    counts = ast.literal_eval(place.run())
    runs = place.runs()

    assert "run the same batch again to go on" in errors
    assert (counts["done"], counts["failed"]) == (THREADS, 0)
    assert counts["skipped"] >= 15
    assert set(runs) == place.acknowledged() == {str(number) for number in range(THREADS)}
    assert run_after_ack(place.lines()) == []
    assert sum(runs.values()) <= THREADS + 2 * place.concurrency


def test_the_checker_finds_work_that_is_done_twice():
    """
    A checker that can't fail proves nothing.
    """
    assert run_after_ack(["run 1", "run 1", "ack 1", "run 2"]) == []
    assert run_after_ack(["run 1", "ack 1", "run 1"]) == ["1"]
