"""Clients of event streams that are cut off a thousand times, over kills and between two servers.

Each form of a stream; real servers, whose answers a proxy cuts at random bytes. A seed that is
printed gives the same places of cuts; which events are there by then depends on the machine.
"""

import asyncio
import random
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial

import httpx
import pytest

from tests.faults.crashes import report, row
from tests.web.clients import Events
from tests.web.cut_clients import FORMS, CutClient
from tests.web.cut_streams import CutStreams
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S, Server, server

# The SDK says so of its own connections that are cut before the first event; it then gets all.
pytestmark = pytest.mark.filterwarnings("ignore:Reconnecting without a Last-Event-ID")

CUTS = 1000
KILLS = 20
PAIRS = 10
"""Runs that two servers stream, each in every form."""
TABLE = "web"
MIB = 1024 * 1024
WORDS = 1000
SLOW_BYTES = 100
SLOW_S = 0.1
"""The pace of a slow reader: 1 kB/s."""

ON_EACH = [(name, SERVERS[place % len(SERVERS)]) for place, name in enumerate(FORMS)]
"""Each form on one of the servers."""

start = partial(Server, module="tests.web.token_app", streams_per_client=None)


def told(cuts: CutStreams, seed: int) -> str:
    """The figures of a table's line."""
    found = Counter(cuts.faults)
    figures = f"seed {seed}, {cuts.cuts['all']} cuts, in an event {cuts.cuts['event']}, "
    figures += f"in a character {cuts.cuts['character']}; missing {found['silent']}, "
    figures += f"doubled {found['twice']}, out of order {found['disordered']}, "
    return figures + f"other faults {found.total() - found['silent'] - found['twice']}"


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("name", FORMS)
def test_a_thousand_cuts(name, kind, tmp_path, request):
    """
    Clients that come back from their last event on get each event once, in order and the same, and
    make the run's state of them; whether the events are stored or in memory.
    """
    seed = random.randrange(2**32)
    waits = name == "langgraph-sdk"

    async def read(made: Server) -> CutStreams:
        cuts = CutStreams(FORMS[name], random.Random(seed), [made])
        async with cuts.opened():
            while cuts.cuts["all"] < CUTS:
                for stored in (True, False):
                    given = {"stored": stored, "most": 40, "pace_s": 0.02}
                    await cuts.read(clients=80 if waits else 12, runs=3, **given)
        return cuts

    place = tmp_path / "runs.db"
    with server(kind, place, module="tests.web.token_app", streams_per_client=None) as made:
        cuts = asyncio.run(read(made))

    report(request.config, TABLE, row(f"cut off, {name}", kind, told(cuts, seed)))
    assert not cuts.faults


@pytest.mark.parametrize(("name", "kind"), ON_EACH)
def test_kills_in_the_middle_of_messages(name, kind, tmp_path, request):
    """
    A server is killed while it streams, and started again: the next attempt's messages are the
    state's, those of the attempt before are taken back where the form says so; and where events are
    not stored, what is missing is told.
    """
    seed, form = random.randrange(2**32), FORMS[name]
    chance = random.Random(seed)

    async def kills() -> list[CutStreams]:
        servers = [start(kind, tmp_path / "runs.db", lease_s=1.0)]
        made = [CutStreams(form, chance, servers) for _ in range(1 + form.counts)]
        kept = made[0]

        async def kill(clients: Sequence[CutClient]) -> None:
            await clients[0].has_read(chance.randint(3, 40))
            await asyncio.to_thread(servers[0].kill)
            servers[0] = await asyncio.to_thread(start, kind, tmp_path / "runs.db", lease_s=1.0)
            for one in made:
                one.take_ports()

        given = {"clients": 3, "most": 12, "pace_s": 0.02}
        async with kept.opened():
            for _ in range(KILLS):
                await kept.read(meanwhile=kill, **given)
        for other in made[1:]:
            async with other.opened():
                for _ in range(KILLS):
                    await other.read(meanwhile=kill, stored=False, loses=True, **given)
        await asyncio.to_thread(servers[0].kill)
        return made

    for cuts, where in zip(asyncio.run(kills()), ("stored", "in memory"), strict=False):
        figures = f"{KILLS} kills, {told(cuts, seed)}, taken back {cuts.dropped}"
        report(request.config, TABLE, row(f"killed, {name}, {where}", kind, figures))
        assert not cuts.faults
        assert bool(cuts.dropped) == (form.takes_back and where == "stored")


@pytest.mark.parametrize(("name", "kind"), ON_EACH)
def test_two_servers(name, kind, postgres, schema, request):
    """
    A client may come back to any server of a database, whichever has the run, and after that one
    was killed.
    """
    seed, form = random.randrange(2**32), FORMS[name]
    chance = random.Random(seed)
    place = f"{postgres.url}#{schema}"

    async def pairs() -> list[CutStreams]:
        servers = [start(kind, place, lease_s=1.0) for _ in range(2)]
        made = [CutStreams(form, chance, servers) for _ in range(1 + form.counts)]

        async def kill(clients: Sequence[CutClient]) -> None:
            await clients[0].has_read(chance.randint(3, 40))
            await asyncio.to_thread(servers[0].kill)  # the runs are started there
            servers[0] = servers[1]
            servers[1] = await asyncio.to_thread(start, kind, place, lease_s=1.0)
            for one in made:
                one.take_ports()

        given = {"clients": 5, "most": 12, "pace_s": 0.02}
        for cuts, stored in zip(made, (True, False), strict=False):
            async with cuts.opened():
                for number in range(PAIRS):
                    also = {"stored": stored, "loses": not stored}
                    await cuts.read(meanwhile=kill if number % 2 else None, **also, **given)
        for one in servers:
            await asyncio.to_thread(one.kill)
        return made

    for cuts, where in zip(asyncio.run(pairs()), ("stored", "in memory"), strict=False):
        figures = f"{PAIRS} runs, {PAIRS // 2} kills, {told(cuts, seed)}"
        report(request.config, TABLE, row(f"two servers, {name}, {where}", kind, figures))
        assert not cuts.faults


@pytest.mark.parametrize("kind", SERVERS)
def test_a_reader_of_a_kilobyte_a_second(kind, tmp_path, request):
    """
    Neither a run nor its other readers wait for it, what the server holds for it is bounded, and
    in the end it knows what it missed.
    """
    body = {"assistant_id": "words", "stream_mode": "custom", "if_not_exists": "create"}
    body["input"] = {"name": "w", "most": WORDS, "pace_s": 0.002, "size": 4000}
    with server(kind, tmp_path / "runs.db", module="tests.web.token_app") as made:
        before = httpx.get(f"{made.url}/memory").json()
        run = httpx.post(f"{made.url}/threads/t/runs", json=body, timeout=DEADLINE_S).json()
        path = f"/threads/t/runs/{run['run_id']}/stream"
        slow, over = slow_reader(made, path), threading.Event()
        taken: list[bytes] = []
        thread = threading.Thread(target=dribble, args=(slow, taken, over))
        thread.start()
        fast = Events()
        with httpx.stream("GET", made.url + path, timeout=DEADLINE_S) as stream:
            assert fast.read(stream.iter_lines())
        after = httpx.get(f"{made.url}/memory").json()
        taken_bytes = sum(map(len, taken))
        over.set()
        thread.join()
        rest = read_on(slow, b"".join(taken))

    grown = (after - before) / MIB
    figures = f"{len(fast.all)} events; it had {taken_bytes} bytes, grown {grown:.0f} MiB, "
    figures += f"then {rest.names.count('custom')} events, {rest.names.count('gap')} gaps"
    report(request.config, TABLE, row("reader of 1 kB/s", kind, figures))
    assert fast.names.count("custom") == 3 * WORDS
    assert not fast.faults().total()
    assert not rest.faults().total()
    assert "gap" in rest.names
    assert grown < 50


def slow_reader(made: Server, path: str) -> socket.socket:
    """A connection whose kernel takes little before the client reads."""
    place = httpx.URL(made.url)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(DEADLINE_S)
    slow.connect((place.host, place.port))
    slow.sendall(f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode())
    return slow


def dribble(slow: socket.socket, taken: list[bytes], over: threading.Event) -> None:
    """Read at the pace of a slow reader."""
    while not over.wait(SLOW_S):
        taken.append(slow.recv(SLOW_BYTES))


def read_on(slow: socket.socket, taken: bytes) -> Events:
    """Read the rest; the events of the whole body."""
    with slow, slow.makefile("rb") as rest:
        body = taken + rest.read()
    lines = body.split(b"\r\n\r\n", 1)[1].decode(errors="strict").split("\n")
    found = Events()
    # Borders of chunks are lines of their own: those of an event begin with its fields' names.
    fields = ("id: ", "event: ", "data: ")
    said = (line.rstrip("\r") for line in lines)
    assert found.read(line for line in said if not line or line.startswith(fields))
    return found
