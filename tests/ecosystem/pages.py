"""Run an agent behind a package that serves it to pages, and print its events as JSON lines.

    python [-m actorgraph.compat -m] tests.ecosystem.pages PACKAGE

PACKAGE: ag_ui or copilotkit. A line is {"way": the visit, "turn": number, "item": an event of
AG-UI, or the state behind it}. A page streams calls of tools, answers a question, goes away in
the middle of an answer and comes back, and has a message answered anew.
"""

import asyncio
import gc
import sys
import warnings
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from ag_ui.core import EventType, RunAgentInput, UserMessage
from ag_ui_langgraph import LangGraphAgent
from copilotkit import CopilotKitMiddleware, LangGraphAGUIAgent
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from tests.ecosystem.drive import THREAD, show, shown_state
from tests.ecosystem.scripted import ScriptedModel, call

SCENES = {
    "weather": [call("weather", city="Bergen"), "It rains in Bergen"],
    "book": [call("book", room="suite"), "The suite is booked"],
    "long": ["One two three four five six"],
    "again": ["Here I am"],
}
BREAKS = (EventType.TEXT_MESSAGE_CONTENT, 2)
"""The page goes away at the second piece of a text."""


@tool
def weather(city: str) -> str:
    """Ask for the weather."""
    return f"rain in {city}"


@tool
def book(room: str) -> str:
    """Book a room, if a person agrees."""
    return f"{room}: {interrupt({'room': room})}"


def graph_for(package: str) -> Any:
    """An agent of LangChain, with the package's middleware if it has one."""
    return create_agent(
        ScriptedModel(label="agent", scenes=SCENES, streams=True),
        tools=[weather, book],
        middleware=[CopilotKitMiddleware()] if package == "copilotkit" else [],
        checkpointer=InMemorySaver(),
    )


AGENTS = {"ag_ui": LangGraphAgent, "copilotkit": LangGraphAGUIAgent}


class Page:
    """A page, which sends all messages that it shows, as AG-UI's clients do."""

    def __init__(self, package: str) -> None:
        self.graph = graph_for(package)
        self.agent = AGENTS[package](name="agent", graph=self.graph)
        self.messages: list[Any] = []
        self.visits = 0

    async def visit(self, way: str, text: str = "", *, leaves: bool = False, **sent: Any) -> None:
        """Send a message, and show the events of the run and the state behind them.

        Args:
            leaves: whether the page goes away as `BREAKS` says.
            sent: `forwarded_props`.
        """
        if text:
            name = f"{way.split(maxsplit=1)[0]}-{self.visits}"
            self.messages.append(UserMessage(id=name, role="user", content=text))
        await self._run(way, leaves=leaves, **sent)
        await _at_rest()
        show(f"{way} state", self.visits, shown_state(await self.graph.aget_state(THREAD)))
        self.visits += 1

    async def _run(self, way: str, *, leaves: bool, **sent: Any) -> None:
        given = RunAgentInput(
            thread_id="t",
            run_id=f"run-{self.visits}",
            state={},
            messages=self.messages,
            tools=[],
            context=[],
            forwarded_props=sent,
        )
        pieces = 0
        # A copy per request, as the package's own route makes.
        async with aclosing(self.agent.clone().run(given)) as events:
            async for event in events:
                if event.type == EventType.RAW:
                    continue
                show(way, self.visits, _shown(event))
                if event.type == EventType.MESSAGES_SNAPSHOT:
                    self.messages = list(event.messages)
                pieces += event.type == BREAKS[0]
                if leaves and pieces == BREAKS[1]:
                    return

    async def edit(self, way: str, number: int, text: str) -> None:
        """Answer anew from the message with a number, counted among the person's."""
        asked = [one for one in self.messages if one.role == "user"]
        at = self.messages.index(asked[number])
        edited = UserMessage(id=asked[number].id, role="user", content=text)
        self.messages = [*self.messages[:at], edited]
        await self.visit(way)


async def _at_rest() -> None:
    """Wait until the run of a page that has left is over: both packages let garbage end it."""
    gc.collect()
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def _shown(event: Any) -> Any:
    return event.model_dump(exclude_none=True, exclude={"timestamp", "raw_event"}, mode="json")


async def main(package: str) -> None:
    """Make all visits."""
    page = Page(package)
    await page.visit("weather", "weather in Bergen")
    await page.visit("book", "book the suite")
    await page.visit("book answer", command={"resume": "yes"})
    await page.visit("long leaves", "long answer please", leaves=True)
    await page.visit("again", "again please")
    await page.edit("edit", 0, "again from here")


def run(words: Sequence[str]) -> None:
    """Run, and show an error as a line, which is compared too."""
    warnings.simplefilter("ignore")
    try:
        asyncio.run(main(words[0]))
    except Exception as error:  # noqa: BLE001 - is compared too
        show("error", -1, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    run(sys.argv[1:])
