"""The bound of a load on a thread as long as they get."""

from tests.faults.crashes import report, row
from tests.savers.test_read_bounds import rows_of_a_load


async def test_the_newest_of_five_thousand_takes_twenty_rows(tmp_path, request, anyio_backend):
    """
    The newest of 5,000 checkpoints of a thread of 10,000 messages is read from at most 20 rows.
    Promise: S066, C1.
    """
    rows = await rows_of_a_load(tmp_path / "runs.db", 5_000)

    report(request.config, "many at once", row("rows of a load of 10,000", anyio_backend, rows))
    assert rows <= 20
