"""The base of every part of the machine: the saver, opened again and again, and the comparison."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

from anyio.from_thread import BlockingPortal
from hypothesis.stateful import RuleBasedStateMachine

from actorgraph import END, START, interrupt
from actorgraph.testing import FaultPlan, FaultySaver
from tests.savers.machine.model import CONTROL, Model, Point
from tests.savers.machine.planted import Planted
from tests.support.graphs import at, compiled

TASKS = [str(UUID(int=n)) for n in (1, 2)]
RUNS = [str(UUID(int=n)) for n in (11, 12)]
RAW, GRAPH = ("p1", "p2"), ("g1", "g2")


def pick(found: list[Any], number: int) -> Any:
    return found[number % len(found)] if found else None


def log_graph(saver: Any) -> Any:
    """START -> a -> ask -> b -> END; all of them add to a list."""

    def ask(state: Any) -> Any:
        return {"bar": ["ask", interrupt("?")]}

    nodes: dict[str, Callable[[Any], Any]] = {
        "a": lambda _: {"bar": ["a"]},
        "ask": ask,
        "b": lambda _: {"bar": ["b"], "foo": "b"},
    }
    edges = [(START, "a"), ("a", "ask"), ("ask", "b"), ("b", END)]
    return compiled(nodes, edges, checkpointer=saver)


class Machine(RuleBasedStateMachine):
    """Operations on a saver. Threads `p*` are put, threads `g*` are run by a graph.

    Args:
        portal: the event loop. make: a saver over the store in a folder.
        folder: an empty one. bug: what is put around the saver.
    """

    def __init__(
        self,
        portal: BlockingPortal,
        make: Callable[[Path], Any],
        folder: Path,
        bug: type[Planted] | None = None,
    ) -> None:
        super().__init__()
        self.portal, self.make, self.folder, self.bug = portal, make, folder, bug
        self.model = Model()
        self.memory: dict[str, Any] = {}
        self.unsure: set[str] = set()
        self.crashes = self.versions = 0
        self.stack = ExitStack()
        self._open()

    # --- the saver ---

    def _open(self) -> None:
        made = self.make(self.folder)
        inner = made if self.bug is None else self.bug(made, self.memory)
        self.plan = FaultPlan()
        self.saver: Any = FaultySaver(inner, self.plan)
        self.graph = log_graph(self.saver)
        self.stack.enter_context(self.portal.wrap_async_context_manager(self.saver))

    def _reopen(self, folder: Path) -> None:
        self.stack.close()
        self.folder = folder
        self._open()

    def call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async def ask() -> Any:
            return await method(*arguments, **options)

        return self.portal.call(ask)

    def listed(self, config: Any, **options: Any) -> list[Any]:
        async def ask() -> list[Any]:
            return [found async for found in self.saver.alist(config, **options)]

        return self.portal.call(ask)

    def teardown(self) -> None:
        try:
            assert self.call(self.saver.alist_threads) == self.model.named()
            for thread in (*RAW, *GRAPH):
                self.check(thread)
        finally:
            self.stack.close()

    def next_version(self, *, taken: bool = False) -> int:
        """A version for all channels: a new one, or one that other values have already."""
        self.versions += not taken
        return max(self.versions, 1)

    # --- comparing ---

    def seen(self, thread: str, **options: Any) -> list[Any]:
        return [self.shown(found) for found in self.listed(at(thread), **options)]

    def shown(self, found: Any) -> Any:
        """The compared part of a tuple of a thread that was put."""
        parent, place = found.parent_config, found.config["configurable"]
        shown: dict[str, Any] = {}
        for task, channel, value in found.pending_writes:
            values, control = shown.setdefault(task, ([], {}))
            if channel in CONTROL:
                assert channel not in control
                control[channel] = value
            else:
                values.append((channel, value))
        return (
            place["checkpoint_id"],
            parent and parent["configurable"]["checkpoint_id"],
            place["checkpoint_ns"],
            found.checkpoint["channel_values"],
            {k: v for k, v in found.metadata.items() if k != "parents"},
            shown,
        )

    def told(self, point: Point) -> Any:
        """The same, as the model has it."""
        about = {"source": point.source, "step": point.step, **point.about}
        where = (point.id, point.parent, point.namespace)
        return (*where, point.values, about, point.shown_writes())

    def check(self, thread: str) -> None:
        points = self.model.there(thread)[::-1]
        if thread in RAW:
            assert self.seen(thread) == [self.told(p) for p in points]
        else:
            assert [self.seen_of(s) for s in self.states(thread)] == [
                self.told_of(p) for p in points
            ]

    def states(self, thread: str) -> list[Any]:
        async def ask() -> list[Any]:
            return [found async for found in self.graph.aget_state_history(at(thread))]

        return self.portal.call(ask)

    def seen_of(self, state: Any) -> Any:
        """The compared part of a snapshot of a thread that a graph ran."""
        parent = state.parent_config
        return (
            state.config["configurable"]["checkpoint_id"],
            parent and parent["configurable"]["checkpoint_id"],
            state.values.get("bar", []),
            state.values.get("foo"),
            (state.metadata["source"], state.metadata["step"]),
        )

    def told_of(self, point: Point) -> Any:
        values = (point.values["bar"], point.values.get("foo"))
        return (point.id, point.parent, *values, (point.source, point.step))
