"""A system with graphs of each kind, and a client of its studio."""

from contextlib import asynccontextmanager
from operator import add
from typing import Annotated, TypedDict

import httpx
import pytest

from actorgraph import END, START, ActorSystem, InMemorySaver, StateGraph, interrupt
from actorgraph.stores import InMemoryStore
from actorgraph.studio import Studio
from actorgraph.web import running

TOKEN = "t0ken"  # noqa: S105 - of tests
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


class State(TypedDict, total=False):
    """`log` appends."""

    log: Annotated[list[str], add]


def chain(*nodes):
    """A graph that calls nodes one after the other."""
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node)
    names = [node.__name__ for node in nodes]
    for one, other in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(one, other)
    return builder.compile()


async def first(_):
    return {"log": ["first"]}


async def second(_):
    return {"log": ["second"]}


async def ask(_):
    form = {"type": "object", "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}}}
    found = interrupt({"question": "Approve?", "schema": form})
    return {"log": [f"{found['ok']} {found.get('why', '')}"]}


class Fault:
    """A node that fails until it is mended."""

    def __init__(self):
        self.broken = True

    async def __call__(self, _):
        if self.broken:
            raise ValueError("the <b>disk</b> is full")
        return {"log": ["mended"]}


class Place:
    """A system, its studio, and a client in a session."""

    def __init__(self, system, studio, fault):
        self.system = system
        self.studio = studio
        self.fault = fault
        transport = httpx.ASGITransport(studio)
        self.client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", follow_redirects=True
        )

    async def get(self, path, status=200):
        """The text of a page."""
        found = await self.client.get(path)
        assert found.status_code == status, found.text
        return found.text

    async def post(self, path, **form):
        """The text of the page after an action."""
        found = await self.client.post(path, data=form, headers=SAME_SITE)
        assert found.status_code < 500, found.text
        return found.text

    async def ran(self, graph, thread_id, given=None, **options):
        """Run a graph on a thread, to its end."""
        run = await self.system.start(graph, thread_id, given or {"log": []}, **options)
        await run.wait()
        return run


@asynccontextmanager
async def studio_place(*, has_store=True, **options):
    """Open a system and a studio over it."""
    fault = Fault()
    builder = StateGraph(State).add_node("fault", fault)
    builder.add_edge(START, "fault").add_edge("fault", END)
    graphs = {"steps": chain(first, second), "ask": chain(first, ask), "fail": builder.compile()}
    system = ActorSystem(
        graphs, saver=InMemorySaver(), store=InMemoryStore() if has_store else None
    )
    studio = Studio(system, **({"token": TOKEN} | options))
    async with running(system):
        place = Place(system, studio, fault)
        async with place.client:
            await place.client.get(f"/?token={TOKEN}")
            yield place


@pytest.fixture
async def place():
    """
    A studio with a session.
    """
    async with studio_place() as made:
        yield made
