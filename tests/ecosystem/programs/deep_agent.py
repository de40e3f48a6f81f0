"""deepagents: a todo list, files, a subagent, and a tool that a person approves."""

from typing import Annotated, Any

from deepagents import create_deep_agent
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.config import get_stream_writer

from tests.ecosystem.scripted import ScriptedModel, call, did


@tool
def search(topic: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Search."""
    did(tool_call_id)
    get_stream_writer()({"searching": topic})
    return f"all about {topic}"


@tool
def publish(path: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Publish a file."""
    did(tool_call_id)
    return f"published {path}"


TODOS = [
    {"content": "read", "status": "in_progress"},
    {"content": "publish", "status": "pending"},
]
DONE = [{"content": one["content"], "status": "completed"} for one in TODOS]
TURNS = ["report on rust", "what is in it"]


def answer(interrupts: Any) -> Any:
    """Approve what is asked for."""
    asked = interrupts[0].value["action_requests"]
    return {"decisions": [{"type": "approve"} for _ in asked]}


def build(saver: Any, store: Any) -> Any:
    """A deep agent with a researcher; publishing asks a person."""
    model = ScriptedModel(
        label="deep",
        scenes={
            "report": [
                call("write_todos", todos=TODOS),
                call("task", description="study rust", subagent_type="researcher"),
                call("write_file", file_path="/report.md", content="rust\nis a language"),
                call("publish", path="/report.md"),
                call("write_todos", todos=DONE),
                "Published",
            ],
            "what": [
                [call("read_file", file_path="/report.md"), call("ls", path="/")],
                call("edit_file", file_path="/report.md", old_string="rust", new_string="Rust"),
                "A report",
            ],
        },
    )
    researcher = {
        "name": "researcher",
        "description": "Researches.",
        "system_prompt": "You research.",
        "tools": [search],
        "model": ScriptedModel(
            label="researcher",
            scenes={
                "study": [[call("search", topic="a"), call("search", topic="b")], "It is good"]
            },
        ),
    }
    return create_deep_agent(
        model=model,
        tools=[publish],
        subagents=[researcher],
        interrupt_on={"publish": True},
        checkpointer=saver,
        store=store,
    )
