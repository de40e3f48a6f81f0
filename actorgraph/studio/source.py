"""Source: what the pages read, of a running system or of a saver alone."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.system import ActorSystem
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web.endpoint import Server
from actorgraph.web.problems import NotFound
from actorgraph.web.thread_registry import GRAPH
from actorgraph.web.thread_state import thread_status

EMPTY = StateSnapshot({}, (), {}, None, None, None, (), ())

STEPS_MAX = 50
"""Steps of one page."""
THREADS_MAX = 50
"""Threads of one page."""


class ThreadFilter(msgspec.Struct, frozen=True):
    """The threads to list; empty fields match all."""

    prefix: str = ""
    status: str = ""
    graph: str = ""
    metadata: str = ""


class ThreadEntry(msgspec.Struct, frozen=True):
    """A thread in a list.

    Attributes:
        graph: the name of its graph; "" if unknown.
        steps: of its newest checkpoint; None if unknown.
        updated: ISO 8601 UTC.
    """

    thread_id: str
    graph: str
    status: str
    steps: int | None
    updated: str
    metadata: dict[str, Any]
    open_runs: bool = False


class ThreadsPage(msgspec.Struct, frozen=True):
    """A page of threads; `next` is the cursor of the next page."""

    rows: tuple[ThreadEntry, ...]
    next: str | None = None


class StepsPage(msgspec.Struct, frozen=True):
    """A page of a thread's steps, newest first.

    Attributes:
        before: the checkpoint to list older steps with; None at the end.
    """

    steps: tuple[StateSnapshot, ...]
    before: str | None


class Source:
    """Reads threads, runs and stores; see the module's docstring.

    Attributes:
        server: of the REST routes over the system; None for a studio that only reads.
        saver: the system's, or the one that is read.
        place: text at the top of each page.
    """

    def __init__(self, server: Server | None, saver: Any, place: str) -> None:
        self.server = server
        self.saver = saver if server is None else server.saver
        self.place = place

    @property
    def system(self) -> ActorSystem | None:
        """The running system; None for a studio that only reads."""
        return None if self.server is None else self.server.system

    @property
    def graphs(self) -> Mapping[str, CompiledStateGraph]:
        """Name -> graph; empty without a system."""
        return {} if self.server is None else self.server.graphs

    @property
    def store(self) -> Any:
        """The system's store; None without one."""
        return None if self.system is None else self.system.store

    def graph_of(self, entry: ThreadEntry) -> CompiledStateGraph:
        """Return the graph of a thread.

        Raises:
            NotFound: it isn't known.
        """
        found = self.graphs.get(entry.graph)
        if found is None:
            raise NotFound(f"the graph of thread {entry.thread_id!r} is not one of this system")
        return found

    async def thread(self, thread_id: str) -> ThreadEntry | None:
        """Read one thread; None if it doesn't exist."""
        if self.server is None:
            return await self._stored_thread(thread_id)
        found = await self.server.threads.get(thread_id)
        if found is None:
            return None
        assert self.system is not None
        open_runs = await self.system.runs(thread_id=thread_id, statuses=OPEN_STATUSES)
        entry = ThreadEntry(
            thread_id,
            str(found.metadata.get(GRAPH) or ""),
            "busy" if open_runs else "idle",
            None,
            found.updated_at,
            dict(found.metadata),
            bool(open_runs),
        )
        head = await self.head(entry)
        status = thread_status(head, busy=bool(open_runs))
        return msgspec.structs.replace(entry, status=status, steps=_number(head))

    async def head(self, entry: ThreadEntry) -> StateSnapshot:
        """Read the newest state of a thread."""
        graph = self.graphs.get(entry.graph)
        if graph is None:
            return EMPTY
        place = {"configurable": {"thread_id": entry.thread_id}}
        return await graph.aget_state(place)

    async def step(self, entry: ThreadEntry, checkpoint: str) -> StateSnapshot | None:
        """Read one step; None if it doesn't exist."""
        graph = self.graphs.get(entry.graph)
        if graph is None:
            return None
        return await graph.aget_state(entry.thread_id, checkpoint)

    async def steps(self, entry: ThreadEntry, before: str | None) -> StepsPage:
        """Read a page of steps, newest first; the newest of all with its pending writes."""
        graph = self.graphs.get(entry.graph)
        if graph is None:
            return StepsPage((), None)
        rows = graph.aget_state_history(
            thread_id=entry.thread_id, before=before, limit=STEPS_MAX + 1
        )
        found = [step async for step in rows]
        if found and before is None:
            found[0] = await self.head(entry)
        more = len(found) > STEPS_MAX
        return StepsPage(
            tuple(found[:STEPS_MAX]), checkpoint_of(found[STEPS_MAX - 1]) if more else None
        )


def _number(step: StateSnapshot) -> int | None:
    number = (step.metadata or {}).get("step")
    return number if isinstance(number, int) else None


def checkpoint_of(step: StateSnapshot) -> str:
    """Return the id of a step's checkpoint; "" for the state of a thread without any."""
    return str(step.config.get("configurable", {}).get("checkpoint_id") or "")


def parent_of(step: StateSnapshot) -> str:
    """Return the id of the checkpoint before a step; "" for the first."""
    return str((step.parent_config or {}).get("configurable", {}).get("checkpoint_id") or "")
