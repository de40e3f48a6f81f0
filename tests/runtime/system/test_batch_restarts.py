"""A batch in a process of its own, stopped by Ctrl-C and by `kill -9`, and run again.

With 3,000 threads, on both event loops and on PostgreSQL: `tests/faults/test_batch_kills.py`.
"""

import ast
import signal

import pytest

from tests.support.batch_worker import BatchPlace, run_after_ack
from tests.support.warm_processes import run

THREADS = 30

PRESSED_AT_AN_END = """
import logging, os, signal, sys
import anyio
from actorgraph import ActorSystem, MemorySaver
from tests.support.graphs import in_a_row

class Presses(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("run.failed"):
            os.kill(os.getpid(), signal.SIGINT)

logging.getLogger("actorgraph").addHandler(Presses())

async def fails(state):
    raise ValueError(state["x"])

async def main():
    graph = in_a_row({"fails": fails}, schema=dict[str, int])
    async with ActorSystem({"g": graph}, saver=MemorySaver()) as system:
        run = await system.start("g", "t", {"x": 1})
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                print(await run.cancel(), flush=True)

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stopped_batch_goes_on_where_it_was(tmp_path, backend):
    """
    Each result once, none missing; a thread whose result was given never runs again.
    """
    place = BatchPlace(tmp_path, backend, THREADS, system=True, concurrency=3)

    errors = place.stop_at(6, signal.SIGINT)
    place.stop_at(15, signal.SIGKILL)
    counts = ast.literal_eval(place.run())
    runs = place.runs()

    if backend == "asyncio":  # on trio Ctrl-C may come in a run's own task, which says less
        assert "run the same batch again to go on" in errors
    assert (counts["done"], counts["failed"]) == (THREADS, 0)
    assert counts["skipped"] >= 15
    assert set(runs) == place.acknowledged() == {str(number) for number in range(THREADS)}
    assert run_after_ack(place.lines()) == []
    assert sum(runs.values()) <= THREADS + 2 * place.concurrency


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_in_the_middle_of_the_end_of_a_run_ends_those_that_wait_for_it(backend):
    """
    On trio it breaks that end off: what waits for the run, shielded, hears of it all the same.
    """
    end = run(["-c", PRESSED_AT_AN_END, backend])

    assert end.returncode != 0
    assert end.stdout.strip() == ("error" if backend == "asyncio" else "cancelled")
    assert "KeyboardInterrupt" in end.stderr


def test_the_checker_finds_work_that_is_done_twice():
    """
    A checker that can't fail proves nothing.
    """
    assert run_after_ack(["run 1", "run 1", "ack 1", "run 2"]) == []
    assert run_after_ack(["run 1", "ack 1", "run 1"]) == ["1"]
