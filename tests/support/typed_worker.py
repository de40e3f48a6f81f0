"""A process with a run for each place where a program declares a type; it is to be killed.

Each run waits for ever in a node or a tool that has got its object. When all of them do, the
process says "started".

| graph          | type of                                                        |
|----------------|----------------------------------------------------------------|
| cron KIND      | the context of a cron's run                                    |
| answer KIND    | the answer of a question; thread "asks" still waits for its own |
| tool KIND      | an argument of a ToolNode's tool                               |
| agent KIND     | the same, in `create_react_agent`                              |
"""

import dataclasses
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import httpx
import pydantic
from msgspec.structs import replace

from actorgraph import (
    START,
    ActorSystem,
    Command,
    PostgresSaver,
    Runtime,
    SqliteSaver,
    StateGraph,
    interrupt,
)
from actorgraph.messages import AIMessage, MessagesState
from actorgraph.prebuilt import ToolNode, create_react_agent
from actorgraph.stores import PostgresStore, SqliteStore
from actorgraph.web import GraphRoutes
from actorgraph.web.cron_actor import CronActor
from tests.support.system_worker import say

LEASE_S = 1.0
TICK = datetime(2026, 1, 1, tzinfo=UTC)
PLACES = ("cron", "answer", "tool", "agent")


class Log(TypedDict, total=False):
    said: Annotated[list[str], add]


@dataclasses.dataclass
class Inner:
    """A class that only a field of the others names."""

    n: int


@dataclasses.dataclass
class Data:
    limit: int
    inner: Inner


class Model(pydantic.BaseModel):
    limit: int
    inner: Inner


KINDS: dict[str, Any] = {"dataclass": Data, "pydantic": Model}
GIVEN: dict[str, Any] = {"limit": 7, "inner": {"n": 3}}
all_wait: list[anyio.Event] = []
"""Set when all runs wait; empty in a process that isn't killed."""
held: list[str] = []
"""One entry for each run that waits."""


async def hold(given: Any) -> str:
    """The object's class and values; wait for the end of the process that is killed."""
    if all_wait:
        held.append("")
        if len(held) == len(PLACES) * len(KINDS):
            all_wait[0].set()
        await anyio.sleep_forever()
    return f"{type(given).__name__} {given.limit} {type(given.inner).__name__} {given.inner.n}"


def in_a_node(kind: Any, *, asks: bool) -> Any:
    """A graph whose node has an object of its context, or of an answer."""

    async def node(_: Log, runtime: Runtime[Any]) -> Log:
        given = interrupt("which?", response_schema=kind) if asks else runtime.context
        return {"said": [await hold(given)]}

    builder = StateGraph(Log, None if asks else kind).add_node("node", node)
    return builder.add_edge(START, "node").compile()


async def model(messages: Sequence[Any]) -> AIMessage:
    """Call the tool once."""
    if messages[-1].type == "tool":
        return AIMessage(messages[-1].content)
    return AIMessage("", tool_calls=[{"name": "tool", "args": {"given": GIVEN}, "id": "1"}])


def in_a_tool(kind: Any, *, agent: bool) -> Any:
    """A graph whose tool has an object among its arguments."""

    async def tool(given: Any) -> str:
        """Say which object it is."""
        return await hold(given)

    tool.__annotations__["given"] = kind
    if agent:
        return create_react_agent(model, [tool])

    async def call(state: MessagesState) -> Any:
        return {"messages": [await model(state["messages"])]}

    builder = StateGraph(MessagesState).add_node("call", call).add_node("tools", ToolNode([tool]))
    return builder.add_edge(START, "call").add_edge("call", "tools").compile()


def system_over(place: str) -> ActorSystem:
    """A system over a file's path or URL#SCHEMA, with its store."""
    url, _, schema = place.partition("#")
    graphs: dict[str, Any] = {}
    for name, kind in KINDS.items():
        graphs[f"cron {name}"] = in_a_node(kind, asks=False)
        graphs[f"answer {name}"] = in_a_node(kind, asks=True)
        graphs[f"tool {name}"] = in_a_tool(kind, agent=False)
        graphs[f"agent {name}"] = in_a_tool(kind, agent=True)
    saver: Any = PostgresSaver(url, schema=schema) if schema else SqliteSaver(place)
    store: Any = PostgresStore(url, schema=schema) if schema else SqliteStore(f"{place}.items")
    return ActorSystem(graphs, saver=saver, store=store, lease_s=LEASE_S)


async def start_crons(system: ActorSystem) -> None:
    """Make a cron of each kind over HTTP, and let their ticks be due."""
    routes = GraphRoutes(system)
    transport = httpx.ASGITransport(routes)
    async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        for name in KINDS:
            body = {"schedule": "0 * * * *", "input": {"said": []}, "context": GIVEN}
            made = await client.post("/runs/crons", json={**body, "assistant_id": f"cron {name}"})
            made.raise_for_status()
    for cron in await routes.server.crons.all():
        since = (TICK - timedelta(minutes=1)).isoformat()
        await routes.server.crons.put(replace(cron, since=since))
    await CronActor(routes.server).look(TICK)


async def main(place: str) -> None:
    """Start all runs, and wait to be killed."""
    all_wait.append(anyio.Event())
    async with system_over(place) as system:
        await start_crons(system)
        for name in KINDS:
            for thread in ("asks", "answered"):
                run = await system.start(f"answer {name}", f"{thread} {name}", {"said": []})
                await run.result()
            given = Command[Any](resume=GIVEN)
            await system.resume(f"answer {name}", f"answered {name}", given)
            for graph in (f"tool {name}", f"agent {name}"):
                asked = {"messages": [{"role": "user", "content": "go"}]}
                await system.start(graph, graph, asked)
        await all_wait[0].wait()
        say("started")
        await anyio.sleep_forever()


if __name__ == "__main__":
    from tests.support import typed_worker  # its classes have the names that others read

    loop, at_place = sys.argv[1:]
    anyio.run(typed_worker.main, at_place, backend=loop)
