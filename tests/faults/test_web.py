"""Servers that are killed again and again, and clients that are slow, gone, or a thousand."""

import random
import socket
import time
from collections import Counter

import httpx
import pytest

from tests.faults.crashes import report, row
from tests.web.clients import Client, Events
from tests.web.connections import (
    HEAD,
    SLEEP,
    begun,
    dribbled,
    dribbler,
    has_left,
    is_at_rest,
    looks_until,
    more_tasks,
    settled,
    stands,
    until,
)
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S, server

KILLS = 10
EVENTS = 60_000
STREAMS = 1000
MIB = 1024 * 1024
TABLE = "web"

pytestmark = pytest.mark.parametrize("kind", SERVERS)


@pytest.mark.promise("E9")
def test_streams_over_many_kills(kind, tmp_path, request):
    """
    However often a server is killed, clients that reconnect learn of every step, get each
    event once, and learn of every gap: of each that may be where events are stored, of each that
    there is where they are not.
    """
    kept, other = (Client(n, resumable=n == "kept", steps=10**6) for n in ("kept", "other"))
    chance = random.Random(kind)
    for _ in range(KILLS):
        with server(kind, tmp_path / "runs.db", lease_s=1.0) as made:
            for client in (kept, other):
                before = client.lives
                while client.lives == before:
                    assert not client.read(made, chance.randint(1, 15), behind="metadata")
            made.kill()
    with server(kind, tmp_path / "runs.db", lease_s=1.0) as made:
        httpx.post(f"{made.url}/enough", timeout=DEADLINE_S)
        done = []
        for client in (kept, other):
            while not client.read(made):
                pass
            state = httpx.get(f"{made.url}/threads/{client.thread_id}/state", timeout=DEADLINE_S)
            done.append(state.json()["values"]["done"])

    for client, steps in zip((kept, other), done, strict=True):
        names, faults = Counter(client.events.names), client.events.faults()
        untold = len(set(steps) - set(client.whole))
        where = "resumable" if client is kept else "in memory"
        figures = f"{KILLS} kills, {len(client.events.all)} events, {names['gap']} gaps told, "
        figures += f"told twice {faults['twice']}, missing and not told {faults['silent']}, "
        figures += f"steps untold {untold} of {len(steps)}"
        report(request.config, TABLE, row(f"stream over kills, {where}", kind, figures))
        assert not faults.total(), faults
        assert untold == 0
        assert steps == list(range(len(steps)))
        assert names["gap"] == client.lives - 1 >= KILLS
    assert kept.events.ids == list(range(1, len(kept.events.ids) + 1))


@pytest.mark.parametrize("kept", ["in memory", "resumable", "block"])
def test_a_reader_that_does_not_read(kind, kept, tmp_path, request):
    """
    While many events are made, what a slow reader holds is bounded. After that it gets
    each event, or a gap in its place; with "block" the run waits for it, and none is.
    """
    body = {"assistant_id": "flood", "input": {"most": EVENTS}, "stream_mode": "custom"}
    body |= {"on_completion": "keep", "stream_resumable": kept == "resumable"}
    policy = "block" if kept == "block" else "drop_oldest"
    with server(kind, tmp_path / "runs.db", when_full=policy) as made:
        before = made.inside()
        events = Events()
        with begun(made, "/runs/stream", body) as slow:
            looks = looks_until(made, stands if kept == "block" else has_left)
            slow.settimeout(DEADLINE_S)
            with slow.makefile(encoding="utf-8") as lines:
                assert events.read(line.rstrip("\r\n") for line in lines)

    ring = max(look["ring"] for look in looks)
    waits = max(look["unsaved_bytes"] for look in looks)
    grown = (max(look["resident"] for look in looks) - before["resident"]) / MIB
    told, faults = Counter(events.names), events.faults()
    figures = f"{EVENTS} events: ring {ring}, waiting {waits} bytes, grown {grown:.0f} MiB, "
    figures += f"told {told['custom']}, gaps {told['gap']}, missing and not told {faults['silent']}"
    report(request.config, TABLE, row(f"slow reader, {kept}", kind, figures))
    assert ring <= 1024
    assert waits < 32 * MIB
    assert grown < 100
    assert not faults.total(), faults
    assert bool(looks[-1]["left"]) == (kept != "block")
    if kept == "block":
        assert (told["custom"], told["gap"]) == (EVENTS, 0)
    else:
        assert told["custom"] < EVENTS


def test_a_thousand_streams(kind, tmp_path, request):
    """
    A thousand open streams take bounded memory; the one after them comes later, and when they
    have gone nothing is left of them.
    """
    with server(kind, tmp_path / "runs.db", streams=STREAMS, streams_per_client=None) as made:
        run = httpx.post(f"{made.url}/threads/t/runs", json=SLEEP, timeout=DEADLINE_S).json()
        path = f"/threads/t/runs/{run['run_id']}/stream"
        until(made, lambda inside: inside["active"] == 1)
        before = settled(made)
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
        empty = until(made, lambda i: not i["streams"] and not more_tasks(i, before))

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
        before = settled(made)
        for number in range(1, 101):
            what = ("stream", "wait")[number % 2]
            gone = begun(made, f"/threads/t/runs/{what}", {**SLEEP, "on_disconnect": "cancel"})
            until(made, lambda inside: inside["active"] == 1)
            gone.close()
            until(made, lambda inside, n=number: inside["left"] == {"cancelled": n})
        left = until(made, lambda inside: is_at_rest(inside) and not more_tasks(inside, before))

    figures = f"100 times: tasks {sum(more_tasks(left, before).values())}, open runs "
    figures += f"{len(left['open_rows'])}, readers {left['readers']}, places {left['streams']}"
    report(request.config, TABLE, row("clients that go away", kind, figures))
    assert left["open_rows"] == []


def test_a_body_that_dribbles(kind, tmp_path, request):
    """
    It is given up after its time, and the server serves others meanwhile.
    """
    with server(kind, tmp_path / "runs.db", body_s=1.0) as made, dribbler(made) as slow:
        slow.sendall(HEAD + b"content-length: 100000\r\n\r\n")
        begin = time.monotonic()
        said = dribbled(made, slow, bytes_max=10_000)
        seconds = time.monotonic() - begin

    ended = said.split(b"\r\n")[0].decode() or "no answer"
    report(request.config, TABLE, row("dribbled body", kind, f"{seconds:.1f} s, {ended}"))
    assert said.startswith(b"HTTP/1.1 408")


def test_headers_that_dribble(kind, tmp_path, request):
    """
    They are the server's affair: hypercorn gives them up, uvicorn waits for ever. Others are served
    meanwhile.
    """
    with server(kind, tmp_path / "runs.db") as made, dribbler(made) as slow:
        slow.sendall(HEAD)
        begin = time.monotonic()
        said = dribbled(made, slow, bytes_max=20 if kind == "uvicorn" else 10_000)
        seconds = time.monotonic() - begin
        given_up = said is not None

    figures = f"given up after {seconds:.1f} s" if given_up else "not given up"
    report(request.config, TABLE, row("dribbled headers", kind, figures))
    assert given_up == (kind != "uvicorn")
