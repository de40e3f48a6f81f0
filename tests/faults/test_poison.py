"""Pauses of processes, and a run that kills its processes, in large: two processes, each store.

`tests.support.poison_worker` is the program.
"""

import pytest

from tests.faults.crashes import report, row
from tests.faults.test_systems import database_of
from tests.support.poison_processes import (
    POISON,
    parked_of,
    paused_in_turn,
    runs_at,
    until_the_poison_is_found,
)

KINDS = ["sqlite", "postgres"]
PAUSES = 12


@pytest.mark.parametrize("kind", KINDS)
async def test_pauses_park_nothing(kind, tmp_path, request, anyio_backend):
    """
    40 runs, two processes, twelve pauses of 1.5 leases: nothing is parked, and all end well.
    """
    database = database_of(kind, request, tmp_path, 0)
    codes = await paused_in_turn(anyio_backend, database, 40, PAUSES)
    runs = await runs_at(database)

    attempts = max(attempt for _, attempt, _ in runs.values())
    figures = (len(runs), PAUSES, attempts, len(parked_of(runs)))
    report(request.config, "pauses of processes", row(kind, anyio_backend, *figures))
    assert codes == [0, 0]
    assert parked_of(runs) == []
    assert {thread: run for thread, run in runs.items() if run[0] != "success"} == {}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_poison_run_alone_is_parked(kind, tmp_path, request, anyio_backend):
    """
    A run among 200 kills each process that runs it: it alone is parked, and the others end well.
    """
    database = database_of(kind, request, tmp_path, 0)
    codes = await until_the_poison_is_found(anyio_backend, database, 200, 12)
    runs = await runs_at(database)

    figures = (len(runs), codes.count(-9), len(parked_of(runs)))
    report(request.config, "a run that kills its processes", row(kind, anyio_backend, *figures))
    assert parked_of(runs) == [POISON]
    assert {status for status, _, _ in runs.values()} == {"parked", "success"}
