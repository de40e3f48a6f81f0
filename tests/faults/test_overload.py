"""A system that gets five times what PostgreSQL can store keeps its lease, and ends its runs."""

import time
from collections import Counter

import anyio
import pytest
from structlog.testing import capture_logs

from actorgraph import ActorSystem, PostgresSaver
from tests.faults.crashes import report, row
from tests.support.graphs import chain

THREADS = 4_000
LEASE_S = 15.0
SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_sleep(2.5); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER INSERT ON writes FOR EACH STATEMENT EXECUTE FUNCTION slow();
CREATE TRIGGER slow AFTER INSERT ON system_runs FOR EACH STATEMENT EXECUTE FUNCTION slow();
"""
"""Rows that 4,000 threads hand over at once are eight batches, which wait for 20 s then."""


@pytest.mark.parametrize("threads", [THREADS])
async def test_overload_loses_no_lease(postgres, schema, threads, request, anyio_backend):
    """
    The lease of a system holds while its saves wait for longer than the lease, and every run ends.
    """
    saver = PostgresSaver(postgres.url, schema=schema)
    graph = chain("ab")
    began = time.monotonic()
    with capture_logs() as logs:
        async with ActorSystem({"g": graph}, saver=saver, lease_s=LEASE_S, max_runs=threads) as one:
            with postgres.connect(schema) as db:
                db.execute(SLOW)
            runs = []

            async def start(number: int) -> None:
                runs.append(await one.start("g", f"t{number}", {"bar": []}))

            async with anyio.create_task_group() as starting:
                for number in range(threads):
                    starting.start_soon(start, number)
            ended = Counter([await run.wait() for run in runs])
    lost = [entry for entry in logs if entry["event"] == "lease.lost"]

    what = f"{threads} threads, lease {LEASE_S:g} s, {time.monotonic() - began:.0f} s"
    report(request.config, "overload", row(what, anyio_backend, {**ended, "lost": len(lost)}))
    assert (ended, lost) == ({"success": threads}, [])
