"""An agent whose run is cancelled at any suspension, or killed, and then gets another message.

The model looks at each conversation that it gets: a tool call without exactly one answer right
behind its message is an invalid history, which every provider refuses. Two tools wait several
times each, so runs end with none, one or both of the calls answered.

    python -m tests.faults.open_calls DB ORACLE BACKEND AGENT     the program to kill
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import InMemorySaver, SqliteSaver, StateGraph, add_messages
from actorgraph.messages import AIMessage
from actorgraph.ports import Saver
from actorgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from tests.faults.cancels import cancel_at
from tests.faults.stores import numbers
from tests.support.source_files import ROOT

JUDGED = ("invalid histories", "invalid states", "messages lost", "results lost", "wrong")
THREADS = 6
RUN_SECONDS_MAX = 60.0
POLL_SECONDS = 0.0005
DELAY_SECONDS_MAX = 0.01


def invalid_calls(messages: list[Any]) -> int:
    """How many tool calls don't have exactly one answer, right behind their message."""
    found = 0
    for place, message in enumerate(messages):
        calls = [call["id"] for call in getattr(message, "tool_calls", None) or ()]
        behind: list[str] = []
        for other in messages[place + 1 :]:
            if other.type != "tool":
                break
            behind.append(other.tool_call_id)
        found += sum(behind.count(call) != 1 for call in calls)
    return found


class Model:
    """Calls both tools for a new message, and then has its answer; counts invalid histories."""

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self.invalid = 0
        self.note = note

    async def __call__(self, messages: list[Any]) -> AIMessage:
        self.invalid += invalid_calls(messages)
        await anyio.lowlevel.checkpoint()
        self.note("model")
        if messages[-1].type == "tool":
            return AIMessage("done")
        made = len(messages)
        calls = [{"name": n, "args": {}, "id": f"{n} {made}"} for n in ("quick", "slow")]
        return AIMessage("", tool_calls=calls)


def tools_of(note: Callable[[str], None]) -> list[Callable[..., Any]]:
    """Two tools, one of which takes longer."""

    async def quick() -> str:
        """Wait once."""
        note("quick")
        await anyio.lowlevel.checkpoint()
        return "quick result"

    async def slow() -> str:
        """Wait several times."""
        for _ in range(4):
            note("slow")
            await anyio.lowlevel.checkpoint()
        return "slow result"

    return [quick, slow]


class Conversation(TypedDict):
    messages: Annotated[list[Any], add_messages(open_calls="answer")]


def own_graph(model: Model, saver: Any) -> Any:
    """A program's own loop: nothing but the reducer looks after open calls."""
    tools = ToolNode(tools_of(model.note))

    async def agent(state: Conversation) -> dict[str, Any]:
        return {"messages": [await model(state["messages"])]}

    builder = StateGraph(Conversation).add_node("agent", agent).add_node("tools", tools)
    builder.set_entry_point("agent").add_conditional_edges("agent", tools_condition)
    return builder.add_edge("tools", "agent").compile(checkpointer=saver)


def agent_of(version: Any) -> Callable[[Model, Any], Any]:
    """The maker of an agent."""

    def make(model: Model, saver: Any) -> Any:
        return create_react_agent(
            model,
            tools_of(model.note),
            version=version,
            checkpointer=saver,
            open_calls="answer",
        )

    return make


AGENTS: dict[str, Callable[[Model, Any], Any]] = {
    "agent, a task per call": agent_of("v2"),
    "agent, one task": agent_of("v1"),
    "graph with the reducer": own_graph,
}


def thread(name: str = "t") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def said(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def results_in(messages: list[Any]) -> Counter[str]:
    """The results of tools in a conversation, by their calls."""
    answers = (m for m in messages if m.type == "tool" and m.status != "error")
    return Counter(m.tool_call_id for m in answers)


async def next_message(graph: Any, model: Model, config: dict[str, Any]) -> Counter[str]:
    """Send a message on a thread whose run was cancelled or killed, and judge what comes of it."""
    seen: Counter[str] = Counter()
    before = (await graph.aget_state(config)).values.get("messages", [])
    result = (await graph.ainvoke(said("and now?"), config))["messages"]
    seen["open calls met"] = int(invalid_calls(before) > 0)
    seen["results kept"] = sum(results_in(before).values())
    seen["invalid histories"] = model.invalid
    seen["invalid states"] = invalid_calls(result)
    texts = [m.content for m in result if m.type == "human"]
    seen["messages lost"] = int(
        texts != [*(m.content for m in before if m.type == "human"), "and now?"]
    )
    seen["results lost"] = (results_in(before) - results_in(result)).total()
    seen["wrong"] = int(result[-1].content != "done")
    return seen


async def cancel_everywhere(
    name: str, kind: str, how: str, path: Path, part: tuple[int, int] = (0, 1)
) -> Counter[str]:
    """Cancel a run of an agent at each of its suspensions, or a part of them; then go on.

    Returns: the number of `awaits`, and the sums of what `next_message` counts.
    """
    seen: Counter[str] = Counter()
    for k in numbers(part):
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        memory = InMemorySaver()

        def saver(memory: Saver = memory) -> Any:
            return memory if kind == "memory" else SqliteSaver(path)

        async with saver() as opened:
            graph = AGENTS[name](Model(), opened)
            await graph.ainvoke(said("hello"), thread())
            fired = await cancel_at(lambda g=graph: g.ainvoke(said("more"), thread()), k, how)
        model = Model()
        async with saver() as opened:
            found = await next_message(AGENTS[name](model, opened), model, thread())
        if bad := {n: found[n] for n in JUDGED if found[n]}:
            print(f"{name}, {kind}, {how}, at suspension {k}: {bad}")
        if not fired:
            return seen
        seen += found
        seen["awaits"] += 1
    raise AssertionError("unreachable")


# --- kill -9 ---


async def work(database: str, oracle: str, name: str) -> None:
    """The program to kill: conversations, one after the other, of several turns each."""
    file = os.open(oracle, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    model = Model(lambda what: os.write(file, f"{what}\n".encode()) and None)
    async with SqliteSaver(database) as saver:
        graph = AGENTS[name](model, saver)
        for number in range(THREADS):
            for turn in range(3):
                await graph.ainvoke(said(f"turn {turn}"), thread(str(number)))


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_once(folder: Path, backend: str, name: str, chance: random.Random) -> bool:
    """Start the program and kill it at a random moment; False if it had ended."""
    folder.mkdir(parents=True)
    oracle = folder / "oracle"
    command = [sys.executable, "-m", "tests.faults.open_calls", str(folder / "db"), str(oracle)]
    lines = chance.randrange(1, THREADS * 3 * 7)
    with subprocess.Popen([*command, backend, name], cwd=ROOT) as process:
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while lines_of(oracle) < lines and process.poll() is None:
            assert time.monotonic() < deadline, f"no {lines} lines"
            time.sleep(POLL_SECONDS)
        try:
            process.wait(timeout=chance.uniform(0, DELAY_SECONDS_MAX))
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    return False


async def kill_often(folder: Path, backend: str, name: str, times: int) -> Counter[str]:
    """Kill the program at several moments; each time go on with every thread that it left.

    Open calls are there for a moment only: while no kill has met one, it goes on, three times as
    long at most.
    """
    seen: Counter[str] = Counter()
    for number in range(3 * times):
        if number >= times and seen["open calls met"]:
            break
        place = folder / f"kill{number}"
        chance = random.Random(f"{name} {backend} {number}")
        seen["kills"] += await anyio.to_thread.run_sync(kill_once, place, backend, name, chance)
        async with SqliteSaver(place / "db") as saver:
            for left in range(THREADS):
                model = Model()
                graph = AGENTS[name](model, saver)
                seen += await next_message(graph, model, thread(str(left)))
    return seen


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], sys.argv[2], sys.argv[4], backend=sys.argv[3])
