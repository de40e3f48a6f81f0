"""Servers that are killed again and again, and clients that are slow, gone, or a thousand."""

import random
import socket
import time
from collections import Counter

import httpx
import pytest

from tests.faults.crashes import report, row
from tests.web.connections import SLEEP, begun, is_at_rest, until
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S, Client, Events, server

KILLS = 10
STEPS = 400
EVENTS = 100_000
STREAMS = 1000
MIB = 1024 * 1024
TABLE = "web"

pytestmark = pytest.mark.parametrize("kind", SERVERS)


@pytest.mark.parametrize("resumable", [True, False])
def test_a_stream_over_many_kills(kind, resumable, tmp_path, request):
    """
    However often a server is killed, a client that comes back knows of every step, is told each
    stored event once, and of every gap.
    """
    client, seed, kills = Client("t", resumable=resumable, steps=STEPS), random.Random(1), 0
    ended = False
    while not ended:
        with server(kind, tmp_path / "runs.db") as made:
            ended = client.read(made, until=seed.randint(5, 45) if kills < KILLS else None)
            made.kill()
            kills += not ended

    ids, names = client.events.ids, Counter(client.events.names)
    twice = len(ids) - len(set(ids)) if resumable else 0
    missing = ids[-1] - len(set(ids)) if resumable else 0
    untold = STEPS - len(client.whole)
    kept = "resumable" if resumable else "in memory"
    figures = f"{kills} kills, {len(ids)} events, {names['gap']} gaps told, "
    figures += f"ids twice {twice}, ids missing {missing}, steps untold {untold}"
    report(request.config, TABLE, row(f"stream over kills, {kept}", kind, figures))
    assert (twice, missing, untold) == (0, 0, 0)
    assert names["gap"] == names["metadata"] - 1 == kills


@pytest.mark.parametrize("kept", ["in memory", "resumable", "block"])
def test_a_reader_that_does_not_read(kind, kept, tmp_path, request):
    """
    While 100,000 events are made, what a slow reader holds is bounded, and what it is told after
    that has a gap, or every event.
    """
    body = {"assistant_id": "flood", "input": {"most": EVENTS}, "stream_mode": "custom"}
    body |= {"on_completion": "keep", "stream_resumable": kept == "resumable"}
    policy = "block" if kept == "block" else "drop_oldest"
    with server(kind, tmp_path / "runs.db", when_full=policy) as made:
        before = made.inside()
        slow = begun(made, "/runs/stream", body)
        until(made, lambda inside: inside["active"] == 1 or inside["left"])
        ring = waits = largest = 0
        end = time.monotonic() + (5 if kept == "block" else 300)
        while time.monotonic() < end:
            inside = made.inside()
            ring, waits = max(ring, inside["ring"]), max(waits, inside["unsaved_bytes"])
            largest = max(largest, inside["resident"])
            if inside["left"]:
                break
        held = not inside["left"]
        events = Events()
        slow.settimeout(300)
        with slow, slow.makefile(encoding="utf-8") as lines:
            assert events.read(line.rstrip("\r\n") for line in lines)

    grown = (largest - before["resident"]) / MIB
    told = Counter(events.names)
    figures = f"{EVENTS} events: ring {ring}, waiting {waits} bytes, grown {grown:.0f} MiB, "
    figures += f"told {told['custom']}, gaps {told['gap']}"
    report(request.config, TABLE, row(f"slow reader, {kept}", kind, figures))
    assert ring <= 1024
    assert grown < 100
    assert held == (kept == "block")
    assert (told["custom"] == EVENTS) == (told["gap"] == 0)
    assert kept != "block" or told["gap"] == 0


def test_a_thousand_streams(kind, tmp_path, request):
    """
    A thousand open streams take bounded memory; the one after them comes later, and when they
    have gone nothing is left of them.
    """
    with server(kind, tmp_path / "runs.db", streams=STREAMS) as made:
        run = httpx.post(f"{made.url}/threads/t/runs", json=SLEEP, timeout=DEADLINE_S).json()
        path = f"/threads/t/runs/{run['run_id']}/stream"
        before = until(made, lambda inside: inside["active"] == 1)
        place = httpx.URL(made.url)
        open_ones = []
        for _ in range(STREAMS):
            one = socket.create_connection((place.host, place.port), DEADLINE_S)
            one.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            open_ones.append(one)
        full = until(made, lambda inside: inside["streams"] == STREAMS)
        refused = httpx.get(f"{made.url}{path}", timeout=DEADLINE_S)
        for one in open_ones:
            one.close()
        empty = until(made, lambda i: not i["streams"] and i["tasks"] == before["tasks"])

    grown = (full["resident"] - before["resident"]) / MIB
    kept = (empty["resident"] - before["resident"]) / MIB
    figures = f"{STREAMS} streams: {grown:.0f} MiB while open, {kept:.0f} MiB after, then 429"
    report(request.config, TABLE, row("open streams", kind, figures))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
    assert grown < 200
    assert empty["readers"] == 0


def test_a_client_goes_away_a_hundred_times(kind, tmp_path, request):
    """
    Each time its run is cancelled, and at the end no task, claim, place or reader is left.
    """
    with server(kind, tmp_path / "runs.db") as made:
        before = until(made, is_at_rest)["tasks"]
        for number in range(1, 101):
            what = ("stream", "wait")[number % 2]
            gone = begun(made, f"/threads/t/runs/{what}", {**SLEEP, "on_disconnect": "cancel"})
            until(made, lambda inside: inside["active"] == 1)
            gone.close()
            until(made, lambda inside, n=number: inside["left"] == {"cancelled": n})
        left = until(made, lambda inside: is_at_rest(inside) and inside["tasks"] == before)

    figures = f"100 times: tasks {len(left['tasks']) - len(before)}, open runs "
    figures += f"{len(left['open_rows'])}, readers {left['readers']}, places {left['streams']}"
    report(request.config, TABLE, row("clients that go away", kind, figures))
    assert left["open_rows"] == []


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_request_that_dribbles(kind, part, tmp_path, request):
    """
    A body that comes byte by byte is given up after its time. Headers are the server's affair:
    hypercorn gives them up, uvicorn waits for ever.
    """
    head = b"POST /threads HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    with server(kind, tmp_path / "runs.db", body_s=1.0) as made:
        place = httpx.URL(made.url)
        with socket.create_connection((place.host, place.port), DEADLINE_S) as slow:
            slow.sendall(head if part == "headers" else head + b"content-length: 1000\r\n\r\n")
            begin, said = time.monotonic(), b""
            slow.settimeout(0.2)
            while time.monotonic() - begin < 20:
                try:
                    slow.sendall(b"x")
                    more = slow.recv(4096)
                except TimeoutError:
                    continue
                except OSError:
                    break
                said += more
                if not more:
                    break
            seconds = time.monotonic() - begin
        alive = made.inside()["active"] == 0

    ended = said.split(b"\r\n")[0].decode() or "no answer"
    report(request.config, TABLE, row(f"dribbled {part}", kind, f"{seconds:.1f} s, {ended}"))
    assert alive
    assert part == "headers" or said.startswith(b"HTTP/1.1 408")
    assert part == "headers" or seconds < 10
