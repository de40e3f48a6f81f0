"""nginx in front: `proxy_pass` alone, and the configuration of the how-to guide."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.clients.app import WORDS
from tests.clients.servers import DEFAULT, NGINX, begin, free_port, how_to, let, nginx, serving
from tests.web.clients import Client, Events
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S
from tests.web.test_wire_sockets import START, WATCH, ask, socket

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

CONFIGS = {"proxy_pass": DEFAULT, "how-to": how_to()}
STEPS = list(range(40))
ASKED = {"messages": [{"type": "human", "content": "weather?", "id": "q"}]}
PINGS = 6
PING_S = 0.3


@pytest.fixture(params=CONFIGS)
def config(request) -> str:
    """
    Each of the configurations.
    """
    return CONFIGS[request.param]


def words_of(made: Any, lines: Iterator[str]) -> Iterator[str]:
    """Each word of the answer; the next one is let when this one was read."""
    let(made)
    for line in lines:
        if line.startswith("data: ") and '"answers"' in line:
            piece = json.loads(line[6:])
            content = piece[0].get("content") if isinstance(piece, list) else None
            if content in WORDS:
                yield content
                let(made)


def write_all(made: Any) -> None:
    """Let the whole answer be written."""
    for _ in WORDS:
        let(made)


def after_comments(made: Any, lines: Iterator[str]) -> Iterator[str]:
    """The lines of a stream; after some comments the answer is written."""
    comments = 0
    for line in lines:
        yield line
        comments += line.startswith(":")
        if comments == PINGS and line:
            write_all(made)


class TestStreams:
    @pytest.mark.parametrize("kind", SERVERS)
    def test_each_word_comes_before_the_next_is_written(self, tmp_path, config, kind):
        """
        The node writes a word only after a client behind nginx has read the one before.
        """
        port = free_port()
        with (
            serving(tmp_path / "runs.db", port, kind) as made,
            nginx(tmp_path, port, config, "gzip on; gzip_types *;") as address,
            httpx.Client(base_url=address, timeout=DEADLINE_S) as client,
        ):
            body = {"assistant_id": "words", "input": ASKED, "stream_mode": "messages-tuple"}
            body["if_not_exists"] = "create"
            with client.stream("POST", "/threads/t/runs/stream", json=body) as answer:
                heard = list(words_of(made, answer.iter_lines()))

        assert answer.headers["content-type"].startswith("text/event-stream")
        assert heard == list(WORDS)

    @pytest.mark.parametrize(("ping_s", "connections"), [(PING_S, 1), (60.0, 2)])
    def test_comments_keep_a_silent_stream_open(self, tmp_path, config, ping_s, connections):
        """
        A stream that is silent for longer than nginx's limit stays open by its comments; without
        them nginx cuts it, and the client goes on after its last event.
        """
        port, events, opened = free_port(), Events(), 0
        config = re.sub("proxy_read_timeout .*;", "", config)
        with (
            serving(tmp_path / "runs.db", port, ping_s=ping_s) as made,
            nginx(tmp_path, port, config, "proxy_read_timeout 1s;") as address,
            httpx.Client(base_url=address, timeout=DEADLINE_S) as client,
        ):
            run = begin(address, "words", ASKED, stream_mode=["updates"])
            while "end" not in events.names:
                opened += 1
                if opened == 2:
                    write_all(made)
                last = {"Last-Event-ID": events.last_id}
                cut = [httpx.RemoteProtocolError] if opened < connections else []
                with (
                    suppress(*cut),
                    client.stream("GET", f"/events/{run}", headers=last) as stream,
                ):
                    events.read(after_comments(made, stream.iter_lines()))

        assert opened == connections
        assert events.faults().total() == 0
        assert events.names == ["metadata", *["updates"] * 3, "end"]


class TestRestarts:
    def test_a_client_goes_on_after_the_servers_kill(self, tmp_path, config):
        """
        Behind nginx the stream ends with the killed server; until the next one serves requests get
        a 502, and then the client goes on after its last event: each one once, in order.
        """
        port, path = free_port(), tmp_path / "runs.db"
        client = Client("t", resumable=True, steps=len(STEPS))
        with nginx(tmp_path, port, config) as address:
            with serving(path, port) as first:
                front = _At(address)
                client.read(front, until=9)
                first.kill()
            away = httpx.get(address + client.place, timeout=DEADLINE_S)
            with serving(path, port):
                assert client.read(front)

        assert away.status_code == 502
        assert client.events.faults().total() == 0
        assert client.events.ids == list(range(1, len(client.events.ids) + 1))
        assert (client.whole, client.lives) == (STEPS, 2)
        assert client.events.names[-1] == "end"

    def test_an_event_source_is_told_to_come_back(self, tmp_path):
        """
        With the how-to's configuration an absent server closes the connection of an EventSource,
        which comes back then, and is a 502 for everybody else.
        """
        with nginx(tmp_path, free_port(), CONFIGS["how-to"]) as address:
            assert httpx.get(address).status_code == 502
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.get(address, headers={"Accept": "text/event-stream"})


class _At:
    """A server, as its clients see it: by an address."""

    def __init__(self, url: str) -> None:
        self.url = url


class TestSockets:
    async def test_a_page_opens_a_socket(self, tmp_path, anyio_backend):
        """
        With the how-to's configuration a page of nginx's address starts a run, and watches it.
        """
        if anyio_backend != "asyncio":
            pytest.skip("the client of WebSockets is asyncio's")
        port = free_port()
        start = {**START, "params": {**START["params"], "assistant_id": "ask"}}
        with (
            serving(tmp_path / "runs.db", port),
            nginx(tmp_path, port, CONFIGS["how-to"]) as address,
        ):
            async with socket(address, "new", Origin=address) as made:
                started, watched = await ask(made, start), await ask(made, WATCH)
                life = [json.loads(await made.recv())["params"]["data"]["event"] for _ in range(2)]

        assert (started["type"], watched["type"]) == ("success", "success")
        assert life == ["running", "interrupted"]
