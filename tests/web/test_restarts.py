"""Streams over a server that is killed and started again: real HTTP, a real process, a file.

Each server takes a second to start, so that all of it is seen at one restart; many of them, on
every server, are in tests/faults.
"""

import httpx
import pytest

from tests.web.clients import Client
from tests.web.processes import DEADLINE_S, server

STEPS = list(range(20))


@pytest.mark.promise("E9")
def test_clients_come_back_after_a_kill(tmp_path):
    """
    Runs go on after the restart. Where they are resumable each event is sent once; where events
    may be lost, or are, a gap and the whole state are; and the end of what is over is sent too.
    """
    kept, other, over = (Client(n, resumable=n == "kept") for n in ("kept", "other", "over"))
    with server("uvicorn", tmp_path / "runs.db", lease_s=2.0) as first:
        over.read(first, until=3)
        httpx.get(first.url + over.place.replace("/stream", "/join"), timeout=DEADLINE_S)
        other.read(first, until=6)
        kept.read(first, until=6)
        first.kill()
    with server("uvicorn", tmp_path / "runs.db", lease_s=2.0) as second:
        assert all(client.read(second) for client in (kept, other, over))

    assert kept.events.ids == list(range(1, len(kept.events.ids) + 1))
    for client in (kept, other):
        assert client.whole == STEPS
        assert client.events.told[-1] == ("end", {"status": "success", "reason": ""})
    assert other.events.names[6:8] == ["gap", "values"]
    assert over.events.names[3:] == ["gap", "values", "end"]
    assert over.whole == STEPS


def test_a_gap_without_its_state_is_made_up_for(tmp_path):
    """
    A client that is cut off between a stored gap and the state behind it gets that state when it
    comes back.
    """
    client = Client("t", resumable=True)
    with server("uvicorn", tmp_path / "runs.db", lease_s=2.0) as first:
        client.read(first, until=4)
        first.kill()
    with server("uvicorn", tmp_path / "runs.db", lease_s=2.0) as second:
        while client.events.names[-1] != "gap":
            assert not client.read(second, until=1)
        assert client.read(second)

    assert not client.events.faults().total()
    assert client.events.names[client.events.names.index("gap") + 1] == "values"
    assert client.whole == STEPS


def test_nothing_is_missing_after_a_drain(tmp_path):
    """
    A server that drains has stored all that it has sent, and the next one goes on behind it.
    """
    client = Client("t", resumable=True)
    with server("uvicorn", tmp_path / "runs.db", lease_s=2.0) as first:
        client.read(first, until=4)
        first.stop()
    with server("uvicorn", tmp_path / "runs.db", lease_s=2.0) as second:
        assert client.read(second)

    assert client.events.ids == list(range(1, len(client.events.ids) + 1))
    assert "gap" not in client.events.names
    assert client.steps == STEPS
