"""A research agent that survives `kill -9`: no finished step runs again.

    python examples/agents/durable_research.py            # kills itself in the middle, and resumes
    python examples/agents/durable_research.py --work DB  # one life: starts or resumes the thread

The agent plans topics, takes notes on one after another, and writes a report; each step is on disk
before the next begins. Offline, or with the model of OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL.
"""

import os
import subprocess
import sys
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

import anyio
from fake_model import FakeModel

from actorgraph import END, START, SqliteSaver, StateGraph
from actorgraph.prebuilt import ChatCompletions

TOPICS = ["storage", "scheduling", "streams", "failures", "testing"]
THREAD = {"configurable": {"thread_id": "research"}}


class Research(TypedDict, total=False):
    """The question, its topics, the notes on them, and the report."""

    question: str
    topics: list[str]
    notes: Annotated[list[str], add]
    report: str


def rule(messages: list[dict[str, Any]]) -> str:
    """Play a model that plans, takes notes and writes."""
    task, _, rest = messages[-1]["content"].partition(":")
    return {"Topics": ", ".join(TOPICS), "Note": f"a note on{rest}"}.get(task, "the whole report")


def builder_for(model: ChatCompletions) -> StateGraph:
    """Build the graph: plan, then one note per step, then the report."""

    async def plan(state: Research) -> dict[str, Any]:
        reply = await model.ainvoke(f"Topics: five, with commas between, for {state['question']}")
        return {"topics": [topic.strip() for topic in reply.content.split(",")][:5]}

    async def note(state: Research) -> dict[str, Any]:
        topic = state["topics"][len(state.get("notes", []))]
        return {"notes": [(await model.ainvoke(f"Note: {topic}")).content]}

    async def write(state: Research) -> dict[str, Any]:
        return {"report": (await model.ainvoke("Report: " + "; ".join(state["notes"]))).content}

    def more(state: Research) -> str:
        return "note" if len(state["notes"]) < len(state["topics"]) else "write"

    builder = StateGraph(Research).add_node(plan).add_node(note).add_node(write)
    builder.add_edge(START, "plan").add_edge("plan", "note").add_edge("write", END)
    return builder.add_conditional_edges("note", more, ["note", "write"])


async def work(database: str) -> None:
    """Run the thread to its end: from the start, or from its last step on disk."""
    async with SqliteSaver(database) as saver:
        graph = builder_for(ChatCompletions()).compile(checkpointer=saver)
        begun = (await graph.aget_state(THREAD)).values
        given = None if begun else {"question": "How do durable programs work?"}
        async for update in graph.astream(given, THREAD, stream_mode="updates"):
            print(*update, flush=True)  # the step is on disk
        print("notes:", len((await graph.aget_state(THREAD)).values["notes"]), flush=True)


def life(database: Path, environment: dict[str, str], *, kill_after: int | None) -> list[str]:
    """Run `--work` in a process of its own; `kill -9` it after some steps. Returns its lines."""
    command = [sys.executable, __file__, "--work", str(database)]
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - Python itself
        command, stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        for line in child.stdout or ():
            lines.append(line.strip())
            print(" ", lines[-1])
            if len(lines) == kill_after:
                child.kill()
    return lines


def main() -> None:
    """Kill the first life after three steps; the second does the rest."""
    with TemporaryDirectory() as folder, FakeModel(rule, word_s=0.02) as fake:
        local = {"OPENAI_BASE_URL": fake.url, "OPENAI_MODEL": "fake", "OPENAI_API_KEY": ""}
        given = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY")
        environment = {**os.environ, **({} if given else local)}
        print("first life, killed after three steps:")
        first = life(Path(folder) / "runs.db", environment, kill_after=3)
        print("second life:")
        second = life(Path(folder) / "runs.db", environment, kill_after=None)
    steps = [line for line in [*first, *second] if not line.startswith("notes")]
    print(f"{len(steps)} steps in two lives, 7 without the kill; {second[-1]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        anyio.run(work, sys.argv[2])
    else:
        main()
