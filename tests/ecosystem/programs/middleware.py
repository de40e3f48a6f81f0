"""LangChain's create_agent with middleware: approval, summaries, retries of a tool and a model."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain.tools import ToolRuntime
from langchain_core.tools import InjectedToolCallId, tool

from tests.ecosystem.scripted import ScriptedModel, call, did


class Failures:
    """How often the weather has failed."""

    count = 0


@tool
def weather(city: str, runtime: ToolRuntime) -> str:
    """Ask for the weather; each first try fails."""
    Failures.count += 1
    if Failures.count % 2:
        raise ConnectionError("no line")
    did(str(runtime.tool_call_id))
    runtime.stream_writer({"weather": city})
    return f"sunny in {city}, {len(runtime.state['messages'])} messages"


@tool
def send(to: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Send a mail."""
    did(tool_call_id)
    return f"sent to {to}"


TURNS = ["mail Ann the weather", "mail2 Ben and Cid", "and then", "thanks a lot"]


def answer(interrupts: Any) -> Any:
    """Approve the first request, edit a second one, reject others."""
    decisions: list[dict[str, Any]] = []
    for number, asked in enumerate(interrupts[0].value["action_requests"]):
        edited = {"name": asked["name"], "args": {"to": "Dan"}}
        decisions.append(
            {"type": "approve"} if not number else {"type": "edit", "edited_action": edited}
        )
    return {"decisions": decisions}


def build(saver: Any, store: Any) -> Any:
    """An agent with two tools and three kinds of middleware."""
    Failures.count = 0
    model = ScriptedModel(
        label="agent",
        scenes={
            "mail": [call("weather", city="Rome"), call("send", to="Ann"), "Sent it"],
            "mail2": [[call("send", to="Ben"), call("send", to="Cid")], "Sent both"],
            "and": ["Nothing then"],
            "thanks": ["You are welcome"],
        },
        streams=True,
    )
    summaries = ScriptedModel(label="summary", scenes={"*": ["a summary"]})
    return create_agent(
        model,
        tools=[weather, send],
        middleware=[
            HumanInTheLoopMiddleware(interrupt_on={"send": True}),
            SummarizationMiddleware(
                model=summaries, trigger=("messages", 10), keep=("messages", 4)
            ),
            ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False),
        ],
        checkpointer=saver,
        store=store,
        name="agent",
    )
