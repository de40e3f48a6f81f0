"""Sessions, and readers of events and of stored checkpoints, cancelled: see `cancelled_stores.py`.

Also all the cases together.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio.lowlevel import checkpoint

from actorgraph import ActorSystem, InMemorySaver, SqliteSaver
from actorgraph.sessions import Session, SessionSaver, session
from tests.faults.cancelled_stores import KEEPERS, After, Call, Case, Slow
from tests.support.abandoned_iterators import running, steps
from tests.support.gates import Turnstile
from tests.support.graphs import at, in_a_row, writer

# --- sessions ---


class OwnSaver:
    """A program's saver of sessions: blocking methods that take a moment."""

    def __init__(self) -> None:
        self._inner, self.slow = SessionSaver(), Slow()

    def get(self, *args: Any, **options: Any) -> Any:
        self.slow.work()
        return self._inner.get(*args, **options)

    def put(self, *args: Any, **options: Any) -> Any:
        self.slow.work()
        return self._inner.put(*args, **options)

    def list(self, *args: Any, **options: Any) -> Any:
        self.slow.work()
        return self._inner.list(*args, **options)

    def delete(self, *args: Any, **options: Any) -> Any:
        self._inner.delete(*args, **options)


SAVERS: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: InMemorySaver(),
    "sqlite": lambda folder: SqliteSaver(folder / "sessions.db"),
    "a program's": lambda _: OwnSaver(),
}
_SLOW = Slow()


async def waits() -> str:
    await checkpoint()
    return "waited"


def works() -> str:
    _SLOW.work()
    return "worked"


async def pieces() -> AsyncIterator[int]:
    for number in range(2):
        await checkpoint()
        yield number


async def read(turns: Session) -> None:
    assert [piece async for piece in turns.astream(pieces)] == [0, 1]


TURNS: dict[str, Callable[[Session], Coroutine[Any, Any, Any]]] = {
    "aturn": lambda turns: turns.aturn(waits),
    "aturn of a sync function": lambda turns: turns.aturn(works),
    "astream": read,
}


def session_case(kind: str, make: Callable[[Path], Any], turn: str) -> Case:
    """A turn; then the next one, and the same turns once more in another session."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        async with _saver(make(folder)) as saver, session("t", saver) as turns:
            turns.state["n"] = 0

            async def call() -> None:
                turns.state["n"] = 1
                await TURNS[turn](turns)

            async def after() -> None:
                assert kind != "a program's" or (await _SLOW.rests() and await saver.slow.rests())
                before, told = turns.turns, turns.state["n"]
                assert told == (1 if before else turns.state["n"])
                assert await turns.aturn(waits) == "waited"
                async with session("t", saver, replay=False) as again:
                    assert again.turns == turns.turns == before + 1
                    assert again.state == turns.state

            yield call, after

    return Case(f"session over {kind} saver, {turn}", opened)


@asynccontextmanager
async def _saver(saver: Any) -> AsyncIterator[Any]:
    if not hasattr(saver, "__aenter__"):
        yield saver
        return
    async with saver:
        yield saver


def session_saver_case(kind: str, make: Callable[[Path], Any], operation: str) -> Case:
    """One operation of a `SessionSaver`."""
    arguments = {"aput": ({"n": 1},)}.get(operation, ())

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        async with _saver(make(folder)) as inner:
            saver = SessionSaver(inner)
            await saver.aput("t", {"n": 0})

            async def after() -> None:
                put = await saver.aput("t", {"n": 2})
                assert await saver.aget("t") == put

            yield lambda: getattr(saver, operation)("t", *arguments), after

    return Case(f"SessionSaver over {kind}, {operation}", opened, waits=kind != "memory")


# --- readers of events ---


async def read_until(events: Any, kind: str, seen: list[Any]) -> None:
    """Read up to an event, or to the end."""
    async for event in events:
        seen.append(event)
        if event.kind == kind:
            return


def reader_case(name: str, saver: Callable[[Path], Any], *, elsewhere: bool = False) -> Case:
    """A reader that is cancelled while it reads; read on, it has missed nothing."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        async with running(saver(folder)) as (_, run, slow), _other(folder, elsewhere) as other:
            found = run if other is None else await other.run(run.id)
            policy: Any = name if name in {"block", "close"} else "drop_oldest"
            events, seen = found.events(when_full=policy), list[Any]()

            async def call() -> None:
                slow.out.set()
                await read_until(events, "end", seen)

            async def after() -> None:
                slow.out.set()
                await run.wait()
                await read_until(events, "end", seen)
                assert [event.offset for event in seen] == list(range(1, len(seen) + 1))
                assert seen[-1].kind == "end"
                events.close()

            yield call, after

    return Case(f"events, {name}", opened)


@asynccontextmanager
async def _other(folder: Path, wanted: bool) -> AsyncIterator[Any]:
    """Another system on the same file."""
    if not wanted:
        yield None
        return
    graphs = {"g": steps(Turnstile())}
    async with ActorSystem(graphs, saver=SqliteSaver(folder / "runs.db")) as system:
        yield system


def waiting_case(name: str, wait: Callable[[Any, Any], Coroutine[Any, Any, Any]]) -> Case:
    """A wait for a run; the run is none the wiser."""

    @asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[tuple[Call, After]]:
        async with running(InMemorySaver()) as (system, run, slow):

            async def call() -> None:
                slow.out.set()
                await wait(system, run)

            async def after() -> None:
                slow.out.set()
                assert await run.wait() in ("success", "cancelled")
                again = await system.start("g", "t", {"bar": []})
                assert await again.wait() == "success"

            yield call, after

    return Case(name, opened)


async def follow_one(system: Any, run: Any) -> None:
    found = await anext(system.follow("t"))
    assert found.id == run.id
    await found.wait()


async def all_of(read: Any) -> None:
    assert [one async for one in read]


def pages_case(name: str, read: Callable[[Any, Any], Any]) -> Case:
    """A listing of a file, read to its end."""

    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[tuple[Call, After]]:
        async with SqliteSaver(folder / "runs.db") as saver:
            graph = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)
            await graph.ainvoke({}, at())

            async def after() -> None:
                await all_of(read(graph, saver))
                await graph.ainvoke({}, at())

            yield lambda: all_of(read(graph, saver)), after

    return Case(name, opened)


POLLED = reader_case(
    "of another system", lambda folder: SqliteSaver(folder / "runs.db"), elsewhere=True
)
"""It looks at the file every 0.2 s."""
QUICK = [
    *KEEPERS,
    *(session_case(kind, make, name) for kind, make in SAVERS.items() for name in TURNS),
    *(
        session_saver_case(kind, SAVERS[kind], name)
        for kind in ("memory", "sqlite")
        for name in ("aget", "aput", "alist", "adelete")
    ),
    *(reader_case(name, lambda _: InMemorySaver()) for name in ("block", "drop_oldest", "close")),
    reader_case("of a file", lambda folder: SqliteSaver(folder / "runs.db")),
    waiting_case("wait", lambda _, run: run.wait()),
    waiting_case("result", lambda _, run: run.result()),
    waiting_case("cancel", lambda _, run: run.cancel()),
    waiting_case("follow", follow_one),
    pages_case("aget_state_history", lambda graph, _: graph.aget_state_history(at())),
    pages_case("alist", lambda _, saver: saver.alist(at())),
]
CASES = [*QUICK, POLLED]
