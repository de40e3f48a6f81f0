"""Run one program in every way and print what it returns, as JSON lines.

    python [-m actorgraph.compat -m] tests.ecosystem.drive PROGRAM

A line is {"way": how it was run, "turn": number, "item": what came}.
"""

import asyncio
import importlib
import inspect
import json
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from tests.ecosystem.normal import normal

MODES = ("values", "updates", "messages", "custom", "tasks", "checkpoints")
RESUMES_MAX = 5
THREAD: Any = {"configurable": {"thread_id": "t"}}


def program_of(name: str) -> ModuleType:
    """Import a program."""
    return importlib.import_module(f"tests.ecosystem.programs.{name}")


async def graph_of(program: ModuleType, saver: Any, store: Any) -> Any:
    """Build a program's graph; `build` may be async."""
    made = program.build(saver, store)
    return await made if inspect.isawaitable(made) else made


def first_input(program: ModuleType, turn: int) -> Any:
    """The input of a turn; its message has an id of its own."""
    return {"messages": [HumanMessage(program.TURNS[turn], id=f"turn-{turn}")]}


def show(way: str, turn: int, item: Any) -> None:
    """Print a line."""
    print(json.dumps({"way": way, "turn": turn, "item": normal(item)}), flush=True)


def shown_state(state: Any) -> Any:
    """A snapshot, without ids."""
    tasks = [
        {
            "name": task.name,
            "interrupts": [one.value for one in task.interrupts],
            "error": task.error,
            "result": task.result,
            "path": task.path,
        }
        for task in state.tasks
    ]
    meta = {k: v for k, v in (state.metadata or {}).items() if k in {"source", "step"}}
    return {"values": state.values, "next": state.next, "tasks": tasks, "metadata": meta}


def inputs(program: ModuleType, turn: int) -> Iterator[Any]:
    """The input of a turn, then answers; send() takes the interrupts that are pending."""
    interrupts = yield first_input(program, turn)
    for _ in range(RESUMES_MAX):
        if not interrupts:
            return
        interrupts = yield Command(resume=program.answer(interrupts))


async def in_turns(program: ModuleType, run: Any, interrupts: Any, way: str) -> None:
    """Run each turn, and its answers, by an async function of the input.

    Args:
        run: prints what came.
        interrupts: async, returns the pending interrupts.
    """
    for turn in range(len(program.TURNS)):
        given = inputs(program, turn)
        try:
            put = next(given)
            while True:
                await run(way, turn, put)
                put = given.send(await interrupts())
        except StopIteration:
            pass


async def asynchronously(program: ModuleType, modes: Any) -> None:
    """Run by `ainvoke` (modes is "") or `astream`."""
    graph = await graph_of(program, InMemorySaver(), InMemoryStore())

    async def run(way: str, turn: int, put: Any) -> None:
        if not modes:
            show(way, turn, await graph.ainvoke(put, THREAD))
            return
        async for chunk in graph.astream(put, THREAD, stream_mode=modes, subgraphs=True):
            show(way, turn, chunk)

    async def pending() -> Any:
        return (await graph.aget_state(THREAD)).interrupts

    way = f"astream {modes}" if modes else "ainvoke"
    await in_turns(program, run, pending, way)
    if not modes:
        show("aget_state", 0, shown_state(await graph.aget_state(THREAD)))
        async for state in graph.aget_state_history(THREAD):
            show("aget_state_history", 0, shown_state(state))


async def blocking(program: ModuleType, modes: Any) -> None:
    """Run by `invoke` or `stream`, without a loop around it."""
    graph = await graph_of(program, InMemorySaver(), InMemoryStore())

    def run_now(way: str, turn: int, put: Any) -> None:
        if not modes:
            show(way, turn, graph.invoke(put, THREAD))
            return
        for chunk in graph.stream(put, THREAD, stream_mode=modes, subgraphs=True):
            show(way, turn, chunk)

    def all_turns() -> None:
        way = f"stream {modes}" if modes else "invoke"
        for turn in range(len(program.TURNS)):
            given = inputs(program, turn)
            try:
                put = next(given)
                while True:
                    run_now(way, turn, put)
                    put = given.send(graph.get_state(THREAD).interrupts)
            except StopIteration:
                pass
        if not modes:
            show("get_state", 0, shown_state(graph.get_state(THREAD, subgraphs=True)))
            for state in graph.get_state_history(THREAD):
                show("get_state_history", 0, shown_state(state))

    await asyncio.to_thread(all_turns)


async def main(name: str) -> None:
    """Run a program in every way."""
    program = program_of(name)
    several = ["updates", "messages", "custom"]
    for modes in ("", *MODES, several):
        for run in (asynchronously, blocking):
            if run is asynchronously or getattr(program, "SYNC", True):
                try:
                    await run(program, modes)
                except Exception as error:  # noqa: BLE001 - is compared too
                    show(f"{run.__name__} {modes}", -1, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(main(sys.argv[1]))
