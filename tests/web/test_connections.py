"""Clients of a real server that go away; those that are slow or many are in tests/faults."""

import json
import socket

import pytest

from tests.web.connections import SLEEP, begun, is_at_rest, more_tasks, settled, until
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S, server


@pytest.mark.parametrize("kind", ["uvicorn", "hypercorn on trio"])
def test_a_client_goes_away(kind, tmp_path):
    """
    With `on_disconnect="cancel"` its run is cancelled, streamed or waited for, and no task, place,
    claim or reader is left; with "continue" only the run is.
    """
    with server(kind, tmp_path / "runs.db") as made:
        before = settled(made)
        for number, what in enumerate(("stream", "wait"), start=1):
            path = f"/threads/t/runs/{what}"
            gone = begun(made, path, {**SLEEP, "on_disconnect": "cancel"})
            until(made, lambda inside: inside["active"] == 1)
            gone.close()
            left = until(made, lambda i: is_at_rest(i) and not more_tasks(i, before))
            assert left["open_rows"] == []
            assert left["left"] == {"cancelled": number}

        gone = begun(made, "/threads/t/runs/stream", {**SLEEP, "on_disconnect": "continue"})
        until(made, lambda inside: inside["active"] == 1)
        gone.close()
        still = until(made, lambda inside: not inside["streams"] and not inside["readers"])
        assert still["active"] == 1
        assert len(still["open_rows"]) == 1


@pytest.mark.parametrize("what", ["stream", "wait"])
@pytest.mark.parametrize("kind", SERVERS)
def test_a_connection_for_one_request_is_closed_at_its_end(kind, what, tmp_path):
    """
    A client that speaks HTTP/1.0, as nginx does by default, gets the whole answer and its end.
    """
    run = {"assistant_id": "steps", "input": {"most": 2}, "if_not_exists": "create"}
    body = json.dumps(run)
    head = (
        f"POST /threads/t/runs/{what} HTTP/1.0\r\nHost: test\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    got = b""
    with server(kind, tmp_path / "runs.db") as made:
        place = made.url.removeprefix("http://").split(":")
        with socket.create_connection((place[0], int(place[1])), DEADLINE_S) as client:
            client.sendall((head + body).encode())
            while part := client.recv(65536):
                got += part

    assert b'"done":[0,1]' in got
    assert (b'"status":"success"' in got) == (what == "stream")
