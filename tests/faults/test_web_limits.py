"""Limits of the web, held by real servers on real sockets against clients that send too much."""

import gzip
import json
import socket
import time
from typing import Any

import httpx
import pytest

from tests.faults.crashes import report, row
from tests.web.connections import SLEEP, begun, is_at_rest, until
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S, Server, server

MIB = 1024 * 1024
LIMITS = {"body_bytes": 100_000, "body_s": 1.0, "depth": 16, "values": 1000, "streams": 3}
CHUNK = b"ffff\r\n" + b" " * 0xFFFF + b"\r\n"


def head(made: Server, *lines: str) -> bytes:
    """The head of a request that makes a thread."""
    place = httpx.URL(made.url)
    told = ("POST /threads HTTP/1.1", f"Host: {place.host}", "Content-Type: application/json")
    return "\r\n".join([*told, *lines, "", ""]).encode()


def status_of(made: Server, sent: bytes, *, again: bytes = b"", times: int = 0) -> int:
    """The status that a server answers, however much of a request is sent meanwhile."""
    place = httpx.URL(made.url)
    with socket.create_connection((place.host, place.port), DEADLINE_S) as made_socket:
        try:
            made_socket.sendall(sent)
            for _ in range(times):
                made_socket.sendall(again)
        except OSError:
            pass  # it has closed the connection: enough
        try:
            answer = made_socket.makefile("rb").readline()
        except ConnectionResetError:  # it said so while more came, and the answer went with that
            return 0
    return int(answer.split()[1]) if answer else 0


def posted(made: Server, body: Any, **headers: str) -> int:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = {"content-type": "application/json", **headers}
    return httpx.post(
        f"{made.url}/threads", content=content, headers=told, timeout=DEADLINE_S
    ).status_code


def nested(depth: int) -> bytes:
    return b'{"metadata":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_survives_excessive_requests(kind, tmp_path, request):
    """
    Bodies that are too long, dribble, are compressed or nested too deep are refused, each with
    its status; streams above the limit too. The memory stays, and others are answered. T36.
    """
    with server(kind, tmp_path / "runs.db", **LIMITS) as made:
        assert posted(made, {"metadata": {"a": "x" * 90_000}}) == 200
        before = made.inside()["resident"]
        told: dict[str, Any] = {
            "a length of 1 GB": status_of(made, head(made, "Content-Length: 1000000000")),
            "1 GB without a length": status_of(
                made, head(made, "Transfer-Encoding: chunked"), again=CHUNK, times=16_384
            ),
            "above the limit": posted(made, {"metadata": {"a": "x" * 110_000}}),
            "a gzip bomb": posted(
                made, gzip.compress(b" " * 50_000_000), **{"content-encoding": "gzip"}
            ),
            "2,000 keys": posted(made, {"metadata": {str(n): 0 for n in range(2_000)}}),
            "nested 17 deep": posted(made, nested(16)),
            "nested 10,000 deep": posted(made, nested(10_000)),
        }
        began = time.monotonic()
        told["a body that dribbles"] = status_of(made, head(made, "Content-Length: 100") + b"{")
        took_s = time.monotonic() - began
        open_ones = [
            begun(made, f"/threads/{n}/runs/stream", {**SLEEP, "on_disconnect": "cancel"})
            for n in range(3)
        ]
        until(made, lambda inside: inside["streams"] == 3)
        told["a fourth stream"] = httpx.post(
            f"{made.url}/runs/wait", json=SLEEP, timeout=DEADLINE_S
        ).status_code
        grown = made.inside()["resident"] - before
        assert httpx.get(f"{made.url}/ok", timeout=DEADLINE_S).status_code == 200
        for one in open_ones:
            one.close()
        until(made, is_at_rest)

    answers = ", ".join(f"{what}: {status}" for what, status in told.items())
    figures = f"{answers}; memory grew by {max(0, grown) / MIB:.0f} MiB"
    report(request.config, "web", row("requests above the limits", kind, figures))
    assert told.pop("1 GB without a length") in (413, 0)
    assert list(told.values()) == [413, 413, 415, 422, 422, 422, 408, 429]
    assert took_s < 20
    assert grown < 64 * MIB


@pytest.mark.parametrize("kind", SERVERS)
def test_too_frequent_requests_wait(kind, tmp_path):
    """
    Above its rate a client has to wait on every server; monitoring routes are exempt. T36.
    """
    with (
        server(kind, tmp_path / "runs.db", requests_per_s=0.01, burst=5) as made,
        httpx.Client(base_url=made.url, timeout=DEADLINE_S) as client,
    ):
        answers = [client.post("/threads/count", json={}) for _ in range(7)]
        watched = {client.get("/ok").status_code for _ in range(7)}

    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) > 1
    assert watched == {200}
