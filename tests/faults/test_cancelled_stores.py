"""Stores, caches, sessions, readers, cancelled at each suspension: see `cancelled_stores.py`."""

import pytest

from tests.faults.cancelled_readers import CASES
from tests.faults.cancelled_stores import OPERATIONS, cancel_case, store_case
from tests.faults.crashes import report, row
from tests.faults.test_cancelled_awaits import HOW
from tests.support.every_store import Shelf


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_cancelled_call_does_not_block_the_next(case, tmp_path, request, anyio_backend):
    """
    Cancelled at any await, a call ends, no task and no thread of it stays, and the same object
    answers the next call.
    """
    awaits = 0
    for how in HOW[anyio_backend]:
        awaits += await cancel_case(case, how, tmp_path)

    report(request.config, "cancelled calls", row(case.name, anyio_backend, awaits))
    assert awaits > 0 or not case.waits


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_cancelled_call_of_postgres_does_not_block_the_next(
    operation, postgres, tmp_path, anyio_backend
):
    """
    The same for a store in PostgreSQL.
    """
    with postgres.borrow("memory") as schema:
        shelf = Shelf("postgres", tmp_path, postgres.url, schema)
        case = store_case("postgres", lambda _: shelf.open(), operation)
        for how in HOW[anyio_backend]:
            assert await cancel_case(case, how, tmp_path) > 0
        shelf.close()
