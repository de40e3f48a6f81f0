"""Runs whose clients are cut off at random: they are started, read and judged."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx

from tests.web.cut_clients import CutClient, Form, faults_at_end, started, state_of
from tests.web.cutting import Cutter
from tests.web.processes import DEADLINE_S, Server
from tests.web.stream_checks import Folded

BYTES_MEAN = 2_000
"""Bytes of a connection, on the average."""
LARGER = {
    "custom": 0.4,
    "messages": 0.5,
    "routes, whole messages": 3,
    "protocol": 5,
    "langgraph-sdk": 15,
}
"""How much more where single events are large, or a new connection takes time."""


def port_of(server: Server) -> int:
    """The port of a server."""
    return httpx.URL(server.url).port or 0


class CutStreams:
    """Clients of one form, at some servers over the same place; what became of them.

    Attributes:
        servers: those that are up; a test may change the list.
        faults: of all clients so far; see `faults_at_end`.
        dropped: messages that clients were told to take back.
    """

    def __init__(self, form: Form, chance: random.Random, servers: list[Server]) -> None:
        self.form = form
        self.servers = servers
        self.faults: Counter[str] = Counter()
        self.dropped = 0
        self._cutter = Cutter(chance, [], int(BYTES_MEAN * LARGER.get(form.name, 1)))
        self._address = ""
        self._http: httpx.AsyncClient | None = None

    @property
    def cuts(self) -> Counter[str]:
        """See `Cutter.cuts`."""
        return self._cutter.cuts

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Put the proxy before the servers."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with (
            httpx.AsyncClient(timeout=DEADLINE_S, limits=limits) as self._http,
            self._cutter.serving() as self._address,
        ):
            yield

    async def read(
        self,
        *,
        clients: int,
        runs: int = 1,
        stored: bool = True,
        loses: bool = False,
        meanwhile: Callable[[Sequence[CutClient]], Awaitable[None]] | None = None,
        **given: Any,
    ) -> None:
        """Start runs, and read each with some of the clients, to the end.

        Args:
            stored: whether the runs' events are stored.
            loses: whether a client that comes late doesn't get the events of runs that aren't.
            meanwhile: what else happens; it gets the clients.
            given: what the runs are given; see `tests.web.token_app`.
        """
        http, form = self._http, self.form
        assert http is not None
        self.take_ports()
        names = [uuid4().hex[:8] for _ in range(runs)]
        url = self.servers[0].url
        places = [await started(http, url, form, name, stored=stored, **given) for name in names]
        made = [CutClient(form, places[number % runs]) for number in range(clients)]
        async with asyncio.TaskGroup() as group:
            for client in made:
                group.create_task(client.read(http, self._address))
            if meanwhile is not None:
                await meanwhile(made)
        for place in places:
            whole = None
            url = self.servers[0].url
            if stored or not loses:
                whole = CutClient(form, place)
                await whole.read(http, url)
            state = await state_of(http, url, place)
            for client in (one for one in made if one.place is place):
                self.faults += faults_at_end(client, whole, state, stored=not loses or stored)
                if form.takes_back:
                    self.dropped += len(Folded(client.reading({})).dropped)

    def take_ports(self) -> None:
        """Lead new connections to the servers that are up."""
        self._cutter.ports[:] = [port_of(one) for one in self.servers]
