"""Each operation of a saver and of a store on PostgreSQL, alone, while its server falls silent.

The network stalls in each phase of the work: before a connection is made, at the server's answer to
BEGIN, at a statement, at the answer to COMMIT. New connections are held back too. The operation
ends in time, with an error of the library's own, and works when the server is back.
"""

from collections import Counter

import anyio
import pytest

from actorgraph import PostgresSaver
from actorgraph.stores import PostgresStore
from tests.faults.crashes import report, row
from tests.support.storage_operations import WAIT_MAX_S, of_a_saver, of_a_store, outcome_of, works
from tests.support.tcp_proxy import proxied

PHASES = {
    "connecting": None,
    "begin": (b"BEGIN\0", True),
    "statement": (b"silent", False),
    "answer": (b"SELECT ", True),
    "commit": (b"COMMIT\0", True),
}
"""A text, and whether the server says it. A statement names the schema, "silent"."""
SCHEMA = "silent"
LIMITS = {"busy_timeout_s": 0.5, "answer_timeout_s": 1.0, "reconnect_timeout_s": 0.5}


async def in_phase(proxy, phase, operation) -> tuple[str, float]:
    """The outcome of an operation whose peer falls silent at a phase."""
    if PHASES[phase] is None:
        proxy.reset()
        proxy.stall()
    else:
        proxy.stall_at(*PHASES[phase])
    try:
        return await outcome_of(operation)
    finally:
        proxy.resume()


@pytest.mark.parametrize("phase", PHASES)
async def test_a_store_whose_server_falls_silent(postgres, phase, request, anyio_backend_name):
    """
    Each operation of a store ends in time, and works when the server is back.
    """
    seen: Counter[str] = Counter()
    longest = 0.0
    with (
        proxied(postgres.socket) as proxy,
        PostgresStore(proxy.url, schema=SCHEMA, **LIMITS) as store,
    ):
        for name, operation in of_a_store(store).items():
            assert await works(operation)
            said, seconds = await in_phase(proxy, phase, operation)
            seen["failed" if said != "ok" else "not reached"] += 1
            longest = max(longest, seconds)
            assert "Error" in said or said == "ok", (name, said)
            assert await works(operation), name
    figures = {**seen, "longest": f"{longest:.1f} s"}
    report(request.config, "silent", row(f"store, {phase}", anyio_backend_name, figures))
    postgres.drop(SCHEMA)

    assert seen["failed"]
    assert longest < 3 * WAIT_MAX_S


@pytest.mark.parametrize("phase", PHASES)
async def test_a_saver_whose_server_falls_silent(postgres, phase, request, anyio_backend_name):
    """
    Each operation of a saver ends in time, and works when the server is back; a save whose COMMIT
    got no answer for longer than lost connections are replaced breaks the saver, and says so.
    """
    seen: Counter[str] = Counter()
    folder = request.getfixturevalue("tmp_path")
    longest = 0.0
    with proxied(postgres.socket) as proxy:
        for name in of_a_saver(PostgresSaver(proxy.url), folder):
            async with PostgresSaver(proxy.url, schema=SCHEMA, **LIMITS) as saver:
                operation = of_a_saver(saver, folder)[name]
                assert await works(operation)
                said, seconds = await in_phase(proxy, phase, operation)
                broken = said.startswith("SaverBrokenError")
                seen["broken" if broken else "failed" if said != "ok" else "not reached"] += 1
                longest = max(longest, seconds)
                assert "Error" in said or said == "ok", (name, said)
                assert not broken or phase == "commit"
                if not broken:
                    assert await works(operation), name
            with anyio.fail_after(6 * WAIT_MAX_S):
                async with PostgresSaver(proxy.url, schema=SCHEMA, **LIMITS) as again:
                    assert await works(of_a_saver(again, folder)[name])
    figures = {**seen, "longest": f"{longest:.1f} s"}
    report(request.config, "silent", row(f"saver, {phase}", anyio_backend_name, figures))
    postgres.drop(SCHEMA)

    assert seen["failed"] + seen["broken"]
    assert longest < 3 * WAIT_MAX_S
