"""Leave iterators early: every way to leave one, and every place where a program has one.

A scene hands out an iterator of something that goes on. After the iterator was left, `finish`
lets that go on to its end, and fails if it doesn't get there.
"""

import asyncio
import gc
import sqlite3
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import anyio

from actorgraph import (
    ActorSystem,
    BaseCheckpointSaver,
    CheckpointTuple,
    InMemorySaver,
    SqliteSaver,
    empty_checkpoint,
    get_stream_writer,
    push_message,
)
from actorgraph.api.streams.projections import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    TasksTransformer,
    UpdatesTransformer,
)
from actorgraph.loops import on_trio
from actorgraph.messages import AIMessage
from actorgraph.sessions import session
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.graphs import ab, at, in_a_row, writer

Make = Callable[[], Any]
Finish = Callable[[], Awaitable[None]]


async def by_break(make: Make) -> Any:
    iterator = make()
    async for _ in iterator:
        break
    return weakref.ref(iterator)


async def by_error(make: Make) -> Any:
    iterator = make()
    with suppress(KeyError):
        async for _ in iterator:
            raise KeyError
    return weakref.ref(iterator)


async def by_cancelling(make: Make) -> Any:
    """Cancel a reader that waits for the next item, where its iterator lets it wait."""
    iterator = make()

    async def read() -> None:
        async for _ in iterator:
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await settled()
        group.cancel_scope.cancel()
    return weakref.ref(iterator)


async def by_garbage(make: Make) -> Any:
    """Leave it in a cycle, which only the collector finds."""
    iterator = make()
    await anext(iterator, None)
    left, cycle = weakref.ref(iterator), [iterator]
    cycle.append(cycle)
    del iterator, cycle
    gc.collect()
    return left


async def by_never_reading(make: Make) -> Any:
    return weakref.ref(make())


WAYS = [by_break, by_error, by_cancelling, by_garbage, by_never_reading]


@dataclass(frozen=True)
class Scene:
    """A place where a program has an iterator.

    Args:
        covers: the names in the public API of the iterators that it shows.
        opened: gives how to make the iterator, and what lets all go on to its end.
        repeats: whether the iterator may be made again and again.
    """

    name: str
    covers: tuple[str, ...]
    opened: Callable[[Path], AbstractAsyncContextManager[tuple[Make, Finish]]]
    repeats: bool = True


def steps(slow: Turnstile, **options: Any) -> Any:
    """A graph that has written in each mode when it waits, and has work after that."""
    inner = in_a_row({"b": writer("b")})
    nodes = {"a": tell, "inner": inner, "slow": slow, **{name: writer(name) for name in "cdefgh"}}
    return in_a_row(nodes, **options)


async def tell(_: Any) -> dict[str, Any]:
    """A node that writes to every live mode."""
    get_stream_writer()("piece")
    push_message(AIMessage(content="word", id="1"), state_key=None)
    return {"bar": ["a"]}


ALL = ["a", "a", "b", "slow", *"cdefgh"]


def events(when_full: Any, buffer: int) -> Any:
    """A run's events."""

    @asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[tuple[Make, Finish]]:
        async with running(InMemorySaver()) as (system, run, slow):
            yield (
                lambda: run.events(buffer=buffer, when_full=when_full),
                lambda: ends_well(system, run, slow),
            )

    return opened


@asynccontextmanager
async def running(saver: Any) -> AsyncIterator[tuple[ActorSystem, Any, Turnstile]]:
    """A system whose run waits at a turnstile."""
    slow = Turnstile({"bar": ["slow"]})
    # Collecting garbage holds the loop, and renewals in memory need it.
    async with ActorSystem({"g": steps(slow)}, saver=saver, lease_s=3600) as system:
        run = await system.start("g", "t", {"bar": []}, resumable=True)
        try:
            await slow.entered.wait()
            yield system, run, slow
        finally:
            slow.out.set()


async def ends_well(system: ActorSystem, run: Any, slow: Turnstile) -> None:
    """The run comes to its end, and the system knows of no reader."""
    slow.out.set()
    with anyio.fail_after(PATIENCE_S):
        assert (await run.result())["bar"] == ALL
    gc.collect()
    assert (run.status, system._actor.followers) == ("success", {})  # noqa: SLF001
    assert not run._job.journal._holds  # noqa: SLF001


@asynccontextmanager
async def stored_events(folder: Path) -> AsyncIterator[tuple[Make, Finish]]:
    """Events of a run that another system on the same file has."""
    async with running(SqliteSaver(folder / "runs.db")) as (system, run, slow):
        graphs = {"g": steps(Turnstile())}
        async with ActorSystem(graphs, saver=SqliteSaver(folder / "runs.db")) as other:
            elsewhere = await other.run(run.id)
            yield elsewhere.events, lambda: ends_well(system, run, slow)


@asynccontextmanager
async def followed(_: Path) -> AsyncIterator[tuple[Make, Finish]]:
    async with running(InMemorySaver()) as (system, run, slow):
        yield lambda: system.follow("t"), lambda: ends_well(system, run, slow)


def stream(start: Callable[[Any, Any], Any]) -> Any:
    """A stream that its reader drives: leaving it ends the run, and the thread is free."""

    @asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[tuple[Make, Finish]]:
        slow = Turnstile({"bar": ["slow"]})
        graph, threads = steps(slow, checkpointer=InMemorySaver()), [at("0")]

        def make() -> Any:
            threads.append(at(str(len(threads))))
            return start(graph, threads[-1])

        async def finish() -> None:
            slow.out.set()
            with anyio.fail_after(PATIENCE_S):
                begun = (await graph.aget_state(threads[-1])).values
                assert (await graph.ainvoke(None if begun else {}, threads[-1]))["bar"] == ALL
            assert slow.closed == slow.calls

        yield make, finish

    return opened


MODES = ("values", "updates", "messages", "custom", "checkpoints", "tasks", "debug")
TRANSFORMERS = (
    *(CheckpointsTransformer, CustomTransformer, DebugTransformer),
    *(TasksTransformer, UpdatesTransformer),
)


def projection(read: Callable[[Any], Any]) -> Any:
    """One projection of a run; the run goes on through its other readers."""

    @asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[tuple[Make, Finish]]:
        slow = Turnstile({"bar": ["slow"]})
        graph, options = steps(slow, checkpointer=InMemorySaver()), {"transformers": TRANSFORMERS}
        async with graph.astream_events({}, at(), version="v3", **options) as run:

            async def finish() -> None:
                gc.collect()
                slow.out.set()
                with anyio.fail_after(PATIENCE_S):
                    assert (await run.output())["bar"] == ALL
                channels = (*run.extensions.values(), run.mux.log)
                assert [one for one in channels if one.waiting is not None] == []

            yield lambda: read(run), finish

    return opened


@asynccontextmanager
async def session_stream(_: Path) -> AsyncIterator[tuple[Make, Finish]]:
    async with session("t", InMemorySaver()) as turns:

        async def finish() -> None:
            assert await turns.aturn(answer) == "next"

        yield lambda: turns.astream(OneThenNone), finish


class OneThenNone(AsyncIterator[int]):
    """One piece; the next one never comes."""

    def __init__(self) -> None:
        self._pieces = [1]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> int:
        if not self._pieces:
            await anyio.sleep_forever()
        return self._pieces.pop()


async def answer() -> str:
    return "next"


def pages(read: Callable[[Any, Any], Any]) -> Any:
    """The pages of a store: the file can be written and emptied of its log after each."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Make, Finish]]:
        async with SqliteSaver(folder / "runs.db") as saver:
            inner = ab(checkpointer=True)
            graph = in_a_row({"inner": inner, "a": writer("a")}, checkpointer=saver)
            await graph.ainvoke({}, at())

            async def finish() -> None:
                await graph.ainvoke({}, at())
                assert await anyio.to_thread.run_sync(unread, folder / "runs.db")

            yield lambda: read(graph, saver), finish

    return opened


class OwnSaver(BaseCheckpointSaver[int]):
    """A saver that a program has written, with one checkpoint."""

    def list(self, config: Any, **_: Any) -> Any:
        yield CheckpointTuple(config, empty_checkpoint(), {})


def unread(path: Path) -> bool:
    """Whether the file has no readers: only then its log can be emptied."""
    connection = sqlite3.connect(path, timeout=0)
    try:
        return connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    finally:
        connection.close()


SAME = {
    "AsyncSubgraphRunStream.interleave": "AsyncGraphRunStream.interleave",
    "ToolCallStream.__aiter__": "StreamChannel.__aiter__",
    "ToolCallStream.__iter__": "StreamChannel.__iter__",
    "ShardedSystem.follow": "ActorSystem.follow",
    "ChunkStream.read_here": "CompiledStateGraph.stream",
    "SubgraphRunStream.view": "AsyncSubgraphRunStream.interleave",
    "RunCalls.amap_threads": "left in tests/api/test_map_threads.py",
    "RunCalls.map_threads": "left in tests/api/test_map_threads.py",
    "ActorSystem.map": "left in tests/runtime/system/test_map.py",
    "BaseCheckpointSaver.list": "a generator of the program's",
}
"""Iterators that are those of another name."""
SCENES = [
    *(
        Scene(f"events, {policy}", ("Run.events", "RunEvents.__aiter__"), events(policy, buffer))
        for policy, buffer in (("block", 1), ("drop_oldest", 1), ("close", 256))
    ),
    Scene("events of another system's run", ("StoredRun.events",), stored_events),
    Scene("follow", ("ActorSystem.follow",), followed),
    *(
        Scene(
            f"astream, {mode}",
            ("StreamCalls.astream",),
            stream(lambda graph, at, mode=mode: graph.astream({}, at, stream_mode=mode)),
        )
        for mode in MODES
    ),
    Scene(
        "astream_events, v2",
        ("RunCalls.astream_events",),
        stream(lambda graph, at: graph.astream_events({}, at)),
    ),
    *(
        Scene(
            f"run.{name}",
            (f"RunView.{name}", "StreamChannel.__aiter__"),
            projection(lambda run, name=name: aiter(getattr(run, name))),
            repeats=False,
        )
        for name in (
            *("values", "messages", "lifecycle", "subgraphs", "updates", "custom"),
            *("checkpoints", "debug", "tasks"),
        )
    ),
    Scene("all events of a run", ("RunCalls.astream_events",), projection(aiter), repeats=False),
    Scene(
        "interleave",
        ("AsyncGraphRunStream.interleave",),
        projection(lambda run: run.interleave("values", "lifecycle")),
        repeats=False,
    ),
    Scene(
        "atee",
        ("StreamChannel.atee",),
        projection(lambda run: run.values.atee(2)[0]),
        repeats=False,
    ),
    Scene("a turn's stream", ("Session.astream",), session_stream),
    Scene(
        "aget_state_history",
        ("StateCalls.aget_state_history",),
        pages(lambda graph, _: graph.aget_state_history(at())),
    ),
    Scene("alist", ("CheckpointMethods.alist",), pages(lambda _, saver: saver.alist(at()))),
    Scene(
        "alist of a program's own saver",
        ("BaseCheckpointSaver.alist",),
        pages(lambda _, __: OwnSaver().alist(at())),
    ),
    Scene(
        "aget_subgraphs",
        ("StateCalls.aget_subgraphs",),
        pages(lambda graph, _: graph.aget_subgraphs()),
    ),
]


def tasks() -> int:
    """How many tasks the running event loop has."""
    if on_trio():
        import trio

        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


def ours() -> Counter[str]:
    """How many objects of the package there are, by their class."""
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    return Counter(f"{k.__module__}.{k.__name__}" for k in kinds if is_of_package(k))


def is_of_package(kind: type) -> bool:
    return str(getattr(kind, "__module__", "")).startswith("actorgraph.")
