"""The graph of the studio's large picture: a branch that is tried again, and a question."""

import asyncio
from pathlib import Path
from typing import Any, TypedDict

from starlette.applications import Starlette
from starlette.routing import Mount

from actorgraph import END, START, ActorSystem, RetryPolicy, SqliteSaver, StateGraph, interrupt
from actorgraph.studio import Studio
from actorgraph.web import running as lifespan_of

FORM = {
    "type": "object",
    "required": ["publish"],
    "properties": {
        "publish": {"type": "boolean", "title": "Publish"},
        "tone": {"enum": ["as it is", "warmer", "drier"]},
        "note": {"type": "string", "description": "for the author"},
    },
}


class Essay(TypedDict, total=False):
    """An essay on its way."""

    topic: str
    papers: int
    pages: int
    draft: str


async def plan(_: Essay) -> Essay:
    await asyncio.sleep(0.1)
    return {}


class Papers:
    """A library that fails twice."""

    def __init__(self) -> None:
        self._failures = 2

    async def __call__(self, _: Essay) -> Essay:
        await asyncio.sleep(0.2)
        if self._failures:
            self._failures -= 1
            raise ConnectionError("the library is closed")
        return {"papers": 2}


async def web(_: Essay) -> Essay:
    await asyncio.sleep(0.6)
    return {"pages": 3}


async def write(state: Essay) -> Essay:
    await asyncio.sleep(0.4)
    found = f"{state.get('papers')} studies, web: {state.get('pages')} pages"
    return {"draft": f"On {state.get('topic')}, after papers: {found}"}


async def review(state: Essay) -> Essay:
    asked = {"question": "Publish this draft?", "draft": state.get("draft"), "schema": FORM}
    interrupt(asked)
    return {}


async def publish(_: Essay) -> Essay:
    return {}


def essay_app(path: Path, token: str) -> Starlette:
    """Serve a studio over a system of this graph, `essay`."""
    builder = StateGraph(Essay)
    builder.add_node("plan", plan)
    builder.add_node("web", web)
    patient = RetryPolicy(initial_interval=0.2, jitter=False, max_attempts=3)
    builder.add_node("papers", Papers(), retry_policy=patient)
    builder.add_node("write", write)
    builder.add_node("review", review)
    builder.add_node("publish", publish)
    builder.add_edge(START, "plan").add_edge("plan", "web").add_edge("plan", "papers")
    builder.add_edge(["web", "papers"], "write").add_edge("write", "review")
    builder.add_edge("review", "publish").add_edge("publish", END)
    system = ActorSystem({"essay": builder.compile()}, saver=SqliteSaver(path))
    studio = Studio(system, token=token, place=path.name)

    def lifespan(_: Any) -> Any:
        return lifespan_of(system)

    return Starlette(lifespan=lifespan, routes=[Mount("/studio", studio)])
