"""SIGTERM under load, once per server; many times in tests/faults."""

import signal

import pytest

from tests.web.shutdowns import (
    COMMANDS,
    DEADLINE_S,
    SERVERS,
    finished_elsewhere,
    lost,
    stopped_under_load,
)


@pytest.mark.parametrize(
    "server",
    [
        *(pytest.param(s, marks=[pytest.mark.long] * (n == 1)) for n, s in enumerate(SERVERS)),
        *(pytest.param(s, marks=pytest.mark.long) for s in COMMANDS),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_acknowledged_is_lost(server, tmp_path):
    """
    At SIGTERM streams end with a word, the server exits in time, and its runs end elsewhere.
    """
    path = tmp_path / "runs.db"
    stopped = stopped_under_load(server, path, 5)
    readers = stopped.readers

    assert stopped.code in (0, -signal.SIGTERM)  # uvicorn ends by the signal, once all is done
    assert stopped.seconds < DEADLINE_S
    ends = {reader.events[-1] for reader in readers}
    assert "drain" in ends
    assert ends <= {"drain", "end"}  # on a slow machine the first run may be over before the last
    assert {reader.cut for reader in readers} == {""}
    assert await lost(path, readers) == 0
    assert await finished_elsewhere(path, readers) == len(readers)
