"""The application that the browser sees: a system over a file, and its studio; run as a process.

    python -m tests.studio.browser.app PATH PORT

The token is `TOKEN`; a process that comes later over the same file goes on with its runs.
"""

import sys
from contextlib import asynccontextmanager
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.routing import Mount

from actorgraph import END, START, ActorSystem, SqliteSaver, StateGraph, add_messages, interrupt
from actorgraph.stores import SqliteStore
from actorgraph.studio import Studio
from actorgraph.web import running

TOKEN = "t0ken"  # noqa: S105 - of tests
HOSTILE = '"><script>window.hit=1</script><img src=x onerror="window.hit=1">'
FORM = {
    "type": "object",
    "required": ["amount"],
    "properties": {
        "ok": {"type": "boolean", "title": "Approve"},
        "amount": {"type": "number", "description": "in euro"},
        "why": {"enum": ["price", "quality"]},
    },
}


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGNgGAWjYBSMgoEHAATiAAFzTsT9AAAA"
    "AElFTkSuQmCC"
)
ANSWER = f"""Two trains go to **Vienna** today:

1. `RJ 63` at 09:10, *direct*
2. `EN 50407` at 21:40

> Book early: [the timetable](https://example.com/times) changes in December.

```
GET /trains?to=vienna
```

{HOSTILE}"""


class Address(BaseModel):
    """Where an order goes."""

    street: str
    country: str = "Austria"


class Item(BaseModel):
    """One item of an order."""

    name: str
    count: int = Field(1, ge=1, le=9)
    tags: list[str] = []


class Order(BaseModel):
    """The answer to `order`."""

    to: Address
    bill: Address | None = None
    items: list[Item] = Field(min_length=1)


class Log(TypedDict, total=False):
    """`log` appends."""

    log: Annotated[list[str], add]


class Chat(TypedDict, total=False):
    """`messages` appends."""

    messages: Annotated[list[AnyMessage], add_messages]


broken = True


async def plan(_: Log) -> dict[str, Any]:
    return {"log": ["plan"]}


async def search(_: Log) -> dict[str, Any]:
    await anyio.sleep(0.4)
    return {"log": ["search"]}


async def write(_: Log) -> dict[str, Any]:
    await anyio.sleep(0.4)
    return {"log": ["write"]}


async def linger(_: Log) -> dict[str, Any]:
    """Work for long enough to be seen at work on a busy machine."""
    await anyio.sleep(3)
    return {"log": ["lingered"]}


async def approve(_: Log) -> dict[str, Any]:
    found = interrupt({"question": "Approve the order?", "schema": FORM})
    return {"log": [f"approved {found.get('amount')}"]}


async def order(_: Log) -> dict[str, Any]:
    found = interrupt("Which order?", response_schema=Order)
    return {"log": [found.model_dump_json()]}


async def agent(state: Chat) -> dict[str, Any]:
    """Call two tools; then say what they found."""
    if isinstance(state["messages"][-1], ToolMessage):
        return {"messages": [AIMessage(ANSWER)]}
    calls = [
        {"id": "c1", "name": "find_trains", "args": {"to": "Vienna", "day": "today"}},
        {"id": "c2", "name": "look_up", "args": {"of": HOSTILE}},
    ]
    return {"messages": [AIMessage("I look that up.", tool_calls=calls)]}


async def tools(_: Chat) -> dict[str, Any]:
    picture = [{"type": "image", "base64": PIXEL, "mime_type": "image/png"}]
    found = [
        ToolMessage('{"trains": ["RJ 63", "EN 50407"]}', tool_call_id="c1"),
        ToolMessage(picture, tool_call_id="c2", status="error"),
    ]
    return {"messages": found}


async def review(_: Chat) -> dict[str, Any]:
    """Ask about a tool call as middleware does."""
    letter = {"to": "ada@example.com", "text": "Your train leaves at 09:10.", "copies": 1}
    asked = {"name": "send_mail", "args": letter, "description": "Sends a mail to a customer"}
    allowed = {"action_name": "send_mail", "allowed_decisions": ["approve", "edit", "reject"]}
    found = interrupt({"action_requests": [asked], "review_configs": [allowed]})
    return {"messages": [AIMessage(f"decided: {found['decisions'][0]}")]}


async def remember(_: Chat) -> dict[str, Any]:
    """Messages of 1,000 turns."""
    made: list[Any] = []
    for at in range(1000):
        made += [HumanMessage(f"question **{at}**"), AIMessage(f"answer `{at}`")]
    return {"messages": made}


async def turn(state: Chat) -> dict[str, Any]:
    """One message of a conversation, in a step of its own."""
    at = len(state["messages"])
    kind = AIMessage if at % 2 else HumanMessage
    return {"messages": [kind(f"said `{at}`")]}


async def fault(_: Log) -> dict[str, Any]:
    global broken  # noqa: PLW0603 - mended by being called
    if broken:
        broken = False
        raise ValueError(f"broken {HOSTILE}")
    return {"log": ["mended"]}


async def count(state: Log) -> dict[str, Any]:
    return {"log": [str(len(state.get("log", [])))]}


async def talk(_: Chat) -> dict[str, Any]:
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello there, dear reader of tokens")]))
    await anyio.sleep(1)
    return {"messages": [await model.ainvoke("hi")]}


def chain(state: Any, *nodes: Any) -> Any:
    builder = StateGraph(state)
    for node in nodes:
        builder.add_node(node)
    names = [node.__name__ for node in nodes]
    for one, other in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(one, other)
    return builder.compile()


def assistant() -> Any:
    builder = StateGraph(Chat).add_node(agent).add_node(tools).add_edge(START, "agent")
    builder.add_edge("tools", "agent")
    builder.add_conditional_edges(
        "agent", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
    )
    return builder.compile()


def loop() -> Any:
    builder = StateGraph(Log).add_node("count", count).add_edge(START, "count")
    builder.add_conditional_edges(
        "count", lambda state: END if len(state["log"]) >= 2000 else "count"
    )
    return builder.compile()


def turns() -> Any:
    builder = StateGraph(Chat).add_node("turn", turn).add_edge(START, "turn")
    builder.add_conditional_edges(
        "turn", lambda state: END if len(state["messages"]) >= 2000 else "turn"
    )
    return builder.compile()


def make_system(path: str) -> ActorSystem:
    inner = chain(Log, search, write)
    nested = StateGraph(Log).add_node("plan", plan).add_node("work", inner)
    nested.add_edge(START, "plan").add_edge("plan", "work").add_edge("work", END)
    graphs = {
        "steps": chain(Log, plan, search, write),
        "slow": chain(Log, plan, linger),
        "nested": nested.compile(),
        "ask": chain(Log, plan, approve),
        "fail": chain(Log, plan, fault),
        "loop": loop(),
        "chat": chain(Chat, talk),
        "order": chain(Log, order),
        "assistant": assistant(),
        "review": chain(Chat, review),
        "long-talk": chain(Chat, remember),
        "turns": turns(),
    }
    return ActorSystem(graphs, saver=SqliteSaver(path), store=SqliteStore(path + ".store"))


def make_app(path: str) -> Starlette:
    system = make_system(path)

    @asynccontextmanager
    async def lifespan(_: Any) -> Any:
        async with running(system):
            await system.store.aput(("users", "ada"), "profile", {"likes": HOSTILE})
            yield

    studio = Studio(system, token=TOKEN, place="tests")
    return Starlette(lifespan=lifespan, routes=[Mount("/studio", studio)])


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(make_app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning")
