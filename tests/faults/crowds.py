"""Many calls at once: on one thread, on a thousand threads, on one question."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from actorgraph import AlreadyResumed, Command, ConflictError, InMemorySaver, SqliteSaver
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, NAMED, chain, fan_out, question

CHAIN, FAN_OUT = NAMED["chain"], NAMED["fan-out"]


def savers(kind: str, path: Path, count: int) -> list[Any]:
    """Savers of one store: as many as there would be processes; one for memory."""
    if kind == "memory":
        return [InMemorySaver()]
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    return [SqliteSaver(path) for _ in range(count)]


async def one_thread(kind: str, mode: str, path: Path, count: int, processes: int) -> Counter[str]:
    """Start runs on one thread at once; each brings an update of its own.

    Returns: how many won and lost, node runs of winners and losers, updates lost.
    """
    seen: Counter[str] = Counter()
    places = savers(kind, path, processes)
    oracles = [Oracle() for _ in range(count)]

    async def run(number: int) -> None:
        oracle = oracles[number]
        graph = chain(oracle).compile(checkpointer=places[number % len(places)])
        given = {"log": [f"run{number};"]}
        try:
            await graph.ainvoke(given, CONFIG, durability=mode)
        except ConflictError:
            seen["lost"] += 1
            seen["node runs of losers"] += len(oracle.labels("start"))
        else:
            seen["won"] += 1
            seen["node runs of winners"] += len(oracle.labels("start"))

    async with opened(places):
        async with anyio.create_task_group() as runs:
            for number in range(count):
                runs.start_soon(run, number)
        graph = chain(Oracle()).compile(checkpointer=places[0])
        log = (await graph.aget_state(CONFIG)).values["log"]
    seen["updates"] = len([label for label in log if label.startswith("run")])
    seen["updates lost"] = seen["won"] - seen["updates"]
    seen["steps lost"] = 3 * seen["won"] - sum(label in CHAIN.log for label in log)
    return seen


@asynccontextmanager
async def opened(places: list[Any]) -> AsyncIterator[None]:
    """`async with` over several savers."""
    async with AsyncExitStack() as stack:
        for place in places:
            await stack.enter_async_context(place)
        yield


async def many_threads(mode: str, path: Path, count: int) -> Counter[str]:
    """Run so many threads at once in one SQLite file, and read each back from a new saver."""
    seen: Counter[str] = Counter(threads=count)
    configs = [{"configurable": {"thread_id": f"thread-{number}"}} for number in range(count)]

    async with SqliteSaver(path) as saver:
        graph = fan_out(Oracle()).compile(checkpointer=saver)

        async def run(number: int) -> None:
            try:
                await graph.ainvoke({"log": [f"{number}"]}, configs[number], durability=mode)
            except Exception as error:  # noqa: BLE001 - counted; none may come
                seen[f"errors ({error!r})"] += 1
                seen["errors"] += 1

        async with anyio.create_task_group() as runs:
            for number in range(count):
                runs.start_soon(run, number)
        commits = saver.statistics().commits
    async with SqliteSaver(path) as saver:
        graph = fan_out(Oracle()).compile(checkpointer=saver)
        for number, config in enumerate(configs):
            state = await graph.aget_state(config)
            right = [f"{number}", *FAN_OUT.log] == state.values.get("log") and not state.next
            seen["read back right"] += right
    seen["commits"] = commits
    return seen


async def resumes(kind: str, mode: str, path: Path, count: int, processes: int) -> Counter[str]:
    """Answer one question so many times at once.

    Returns: answers taken and refused, other errors, runs of the node to its end.
    """
    seen: Counter[str] = Counter()
    oracle = Oracle()
    places = savers(kind, path, processes)
    async with opened(places):
        graphs = [question(oracle).compile(checkpointer=place) for place in places]
        await graphs[0].ainvoke(INPUT, CONFIG, durability=mode)

        async def answer(number: int) -> None:
            graph = graphs[number % len(graphs)]
            try:
                await graph.ainvoke(Command(resume=f"yes{number}"), CONFIG, durability=mode)
            except AlreadyResumed:
                seen["refused"] += 1
            except ConflictError:
                seen["taken over"] += 1
            else:
                seen["taken"] += 1

        async with anyio.create_task_group() as calls:
            for number in range(count):
                calls.start_soon(answer, number)
        log = (await graphs[0].aget_state(CONFIG)).values["log"]
    seen["node runs"] = len(oracle.labels("done")) - 1  # without the node before the question
    seen["answers in the state"] = sum(label.startswith("yes") for label in log)
    return seen
