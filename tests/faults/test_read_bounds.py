"""The bounds of reads on threads as long as they get."""

import pytest

from tests.faults.crashes import report, row
from tests.savers import test_postgres_connections as postgres_reads
from tests.savers.test_read_bounds import rows_of_a_load


@pytest.mark.promise("S066", "C1")
async def test_the_newest_of_five_thousand_takes_twenty_rows(tmp_path, request, anyio_backend):
    """
    The newest of 5,000 checkpoints of a thread of 10,000 messages is read from at most 20 rows.
    """
    rows = await rows_of_a_load(tmp_path / "runs.db", 5_000)

    report(request.config, "many at once", row("rows of a load of 10,000", anyio_backend, rows))
    assert rows <= 20


@pytest.mark.promise("S066", "C1")
async def test_nor_more_on_postgresql(postgres, schema, request, anyio_backend):
    """
    On PostgreSQL too the newest of 5,000 checkpoints comes from at most 20 rows.
    """
    rows = await postgres_reads.rows_of_a_load(postgres.url, schema, 5_000)

    report(request.config, "many at once", row("the same on PostgreSQL", anyio_backend, rows))
    assert rows <= 20


@pytest.mark.promise("S216")
async def test_twelve_hundred_checkpoints_on_postgresql(postgres, schema, request, anyio_backend):
    """
    1,200 checkpoints are read with two statements a page of 100 on PostgreSQL.
    """
    found, asked = await postgres_reads.statements_of_a_history(postgres.url, schema, 1_198)
    selects = asked.count("SELECT") - asked.count("BEGIN")  # one of each page sets the schema

    report(request.config, "many at once", row("selects for 1,200", anyio_backend, selects))
    assert (found, selects) == (1_200, 24)
