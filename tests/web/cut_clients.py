"""Clients of event streams that come back from their last event on, wherever they were cut off.

A form is one way to read a run: a URL, what asks for the rest of it, and where its end is.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from langgraph_sdk import get_client
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from actorgraph.web.stream_protocol.protocol_events import WIRE_MODES
from actorgraph.web.stream_protocol.subscriptions import CHANNELS
from tests.web.stream_checks import Again, Folded, Told, faults_in_words, faults_of

PATIENCE_S = 240
PAUSE_S = 0.02
"""Between two connections; a server that is away isn't asked in a busy loop."""
BROKEN = (httpx.HTTPError, OSError, WebSocketException)


class Place(NamedTuple):
    """A run that is read; `name` is in its words."""

    thread: str
    run: str
    name: str


class Heard(NamedTuple):
    """One event as it came, with the id that a client comes back with."""

    id: str | None
    name: str
    data: Any


Source = Callable[[httpx.AsyncClient, str, Place, str | None], AsyncIterator[Heard]]
"""The events of one connection: of an address, from an id on."""


@dataclass(frozen=True)
class Form:
    """A way to read a run.

    Attributes:
        modes: what the run streams.
        adds: whether each word comes once; else each event has all words so far.
        counts: whether ids are numbers from 1; else they are places among all events.
        same: whether an event has the same data each time.
        takes_back: whether it says which messages are no more.
    """

    name: str
    source: Source
    modes: tuple[str, ...]
    adds: bool = True
    counts: bool = True
    same: bool = True
    takes_back: bool = False


@dataclass
class CutClient:
    """Reads one run to its end."""

    form: Form
    place: Place
    all: list[Heard | None] = field(default_factory=list[Heard | None])
    last: str | None = None
    _wanted: int = 0
    _reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def has_read(self, count: int) -> None:
        """Wait until it has so many events, which are less than all."""
        self._wanted = count
        if len(self.all) < count:
            await self._reached.wait()

    async def read(self, client: httpx.AsyncClient, address: str) -> None:
        """Connect as often as it takes."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self._connect(client, address):
                self._take(None)
                await asyncio.sleep(PAUSE_S)

    async def _connect(self, client: httpx.AsyncClient, address: str) -> bool:
        """Read until the connection breaks; whether the run's end came."""
        try:
            async with aclosing(self.form.source(client, address, self.place, self.last)) as found:
                async for one in found:
                    self._take(one)
                    self.last = self.last if one.id is None else one.id
                    if is_end(one):
                        return True
        except BROKEN:
            pass
        return False

    def _take(self, one: Heard | None) -> None:
        self.all.append(one)
        if len(self.all) == self._wanted:
            self._reached.set()

    def reading(self, known: dict[str, int]) -> list[Told | Again]:
        """What it read; with the places of ids among all of them, if they aren't numbers."""
        found: list[Told | Again] = []
        last = 0
        for one in self.all:
            if one is None:
                found.append(Again(last))
                continue
            number = self._number(one.id, known)
            last = last if number is None else number
            found.append(Told(number, one.name, one.data))
        return found

    def _number(self, identifier: str | None, known: dict[str, int]) -> int | None:
        if identifier is None:
            return None
        if self.form.counts:
            return int(identifier.rpartition(".")[2])
        return known.get(identifier)


def is_end(one: Heard) -> bool:
    """Whether an event is the run's last one."""
    if one.name == "lifecycle":
        params = one.data["params"]
        return not params["namespace"] and params["data"]["event"] in ("completed", "failed")
    return one.name == "end"


async def _sse(response: httpx.Response) -> AsyncIterator[Heard]:
    """Parse what came whole; a part of an event that is cut off counts for nothing."""
    if response.status_code != 200:
        raise httpx.RemoteProtocolError((await response.aread()).decode())
    rest = b""
    async for part in response.aiter_bytes():
        *blocks, rest = (rest + part).split(b"\n\n")
        for block in blocks:
            said = dict(line.split(": ", 1) for line in block.decode().split("\n"))
            if "data" in said:
                yield Heard(said.get("id"), said["event"], json.loads(said["data"]))


def _get(path: str, **query: Any) -> Source:
    """A form whose clients say the last event's id in the header."""

    async def source(
        client: httpx.AsyncClient, address: str, place: Place, last: str | None
    ) -> AsyncIterator[Heard]:
        # A thread's stream begins with what is new, unless the client names a run.
        last = f"{place.run}.0" if last is None and path.startswith("/threads/{thread}/s") else last
        headers = {} if last is None else {"Last-Event-ID": last}
        url = address + path.format(**place._asdict())
        async with client.stream("GET", url, params=query, headers=headers) as response:
            async for one in _sse(response):
                yield one

    return source


async def _read(
    client: httpx.AsyncClient, address: str, place: Place, last: str | None
) -> AsyncIterator[Heard]:
    """What a program's own reader of `Run.events` gets."""
    url = f"{address}/read/{place.run}?after={last or 0}"
    async with client.stream("GET", url) as response:
        rest = b""
        async for part in response.aiter_bytes():
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                number, name, data = json.loads(line)
                yield Heard(str(number), name, data)


async def _sdk(
    client: httpx.AsyncClient, address: str, place: Place, last: str | None
) -> AsyncIterator[Heard]:
    """LangGraph's client, which connects again by itself."""
    async with get_client(url=address, timeout=PATIENCE_S) as sdk:
        stream = sdk.runs.join_stream(place.thread, place.run, last_event_id=last)
        async for part in stream:
            yield Heard(part.id, part.event, part.data)


def _wanted(last: str | None) -> dict[str, Any]:
    since = {} if last is None else {"since": int(last.rpartition("#")[2])}
    return {"channels": CHANNELS, **since}


def _heard(event: dict[str, Any]) -> Heard:
    """An event of the streaming protocol; clients come back with its number."""
    known = f"{event['event_id']}#{event['seq']}" if "seq" in event else None
    return Heard(known, event["method"], event)


async def _protocol(
    client: httpx.AsyncClient, address: str, place: Place, last: str | None
) -> AsyncIterator[Heard]:
    url = f"{address}/threads/{place.thread}/stream/events"
    async with client.stream("POST", url, json=_wanted(last)) as response:
        async for one in _sse(response):
            yield _heard(one.data)


async def _socket(
    client: httpx.AsyncClient, address: str, place: Place, last: str | None
) -> AsyncIterator[Heard]:
    url = f"{address.replace('http', 'ws', 1)}/threads/{place.thread}/stream/events"
    async with connect(url, proxy=None, close_timeout=0.1) as made:
        asked = {"id": 1, "method": "subscription.subscribe", "params": _wanted(last)}
        await made.send(json.dumps(asked))
        async for text in made:
            said = json.loads(text)
            if said["type"] == "event":
                yield _heard(said)


JOINED = "/threads/{thread}/runs/{run}/stream"
BOTH = ("custom", "messages-tuple")
FORMS = {
    form.name: form
    for form in (
        Form("custom", _get("/events/{run}"), ("custom",)),
        Form("messages", _get("/events/{run}"), ("messages-tuple",), same=False, takes_back=True),
        Form("read events", _read, BOTH),
        Form("routes", _get(JOINED), BOTH),
        Form("routes, whole messages", _get(JOINED), ("messages",), adds=False),
        Form("routes, thread", _get("/threads/{thread}/stream"), BOTH),
        Form("langgraph-sdk", _sdk, BOTH),
        Form("protocol", _protocol, WIRE_MODES, counts=False),
        Form("socket", _socket, WIRE_MODES, counts=False),
    )
}


async def started(
    client: httpx.AsyncClient, address: str, form: Form, name: str, *, stored: bool, **given: Any
) -> Place:
    """Start a run on a thread of its own."""
    thread, given = f"thread-{name}", {"name": name, **given}
    if not form.counts and not stored:
        params = {"assistant_id": "words", "input": given}
        command = {"id": 1, "method": "run.start", "params": params}
        url = f"{address}/threads/{thread}/commands"
        answer = await client.post(url, json=command)
        return Place(thread, answer.json()["result"]["run_id"], name)
    body = {
        "assistant_id": "words",
        "input": given,
        "stream_mode": list(form.modes),
        "stream_resumable": stored,
        "stream_subgraphs": not form.counts,
        "if_not_exists": "create",
    }
    answer = await client.post(f"{address}/threads/{thread}/runs", json=body)
    return Place(thread, answer.json()["run_id"], name)


async def state_of(client: httpx.AsyncClient, address: str, place: Place) -> dict[str, Any]:
    """The values of a run's thread."""
    answer = await client.get(f"{address}/threads/{place.thread}/state")
    return answer.json()["values"]


def faults_at_end(
    client: CutClient, whole: CutClient | None, state: dict[str, Any], *, stored: bool
) -> Counter[str]:
    """Return the faults of all that a client read, to the run's end.

    Beside those of `stream_checks`: "other data" of an event than a client that was never cut off
    has; "unlike": texts that aren't the state's; "left open": messages without an end.

    Args:
        whole: the client that was never cut off; None if none could have all.
        state: the values of the run's thread.
        stored: whether the run's events were stored, so that none may be missing.
    """
    form = client.form
    # A gap of what isn't stored has the id of the event before it.
    all_there = [one for one in whole.all if one is not None and one.name != "gap"] if whole else []
    there = {one.id: one.data for one in all_there}
    known = {name: place for place, name in enumerate(filter(None, there), 1) if name}
    read = client.reading(known)
    found = faults_of(read, may_miss=not stored) if form.counts or whole else Counter[str]()
    if form.adds and stored:
        found += faults_in_words(read, client.place.name)
    if whole is not None and form.same:
        others = [
            one
            for one in client.all
            if one is not None and one.id is not None and one.name != "gap"
        ]
        found["other data"] += sum(there.get(one.id) != one.data for one in others)
    return +(found + _unlike(form, Folded(read), state, stored=stored))


def _unlike(form: Form, folded: Folded, state: dict[str, Any], *, stored: bool) -> Counter[str]:
    said = {one["id"]: one["content"] for one in state["messages"]}
    found = Counter({"left open": len(folded.open)})
    if form.modes != ("custom",):
        found["unlike"] += sum(folded.messages.get(key) != said[key] for key in said)
        found["unlike"] += form.takes_back and len(folded.messages.keys() - said.keys())
    if stored and "custom" in form.modes:
        found["unlike"] += sum(folded.chunks[key] != said[key] for key in said)
    return found
