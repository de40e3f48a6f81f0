"""Source: what the pages read, of a running system or of a saver alone."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.system import ActorSystem
from actorgraph.values.state_snapshot import StateSnapshot

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
        system: None for a studio that only reads.
        saver: the system's, or the one that is read.
        place: text at the top of each page.
    """

    def __init__(self, system: ActorSystem | None, saver: Any, place: str) -> None:
        self.system = system
        self.saver = saver if system is None else system.saver
        self.place = place

    @property
    def graphs(self) -> Mapping[str, CompiledStateGraph]:
        """Name -> graph; empty without a system."""
        return {} if self.system is None else self.system.graphs  # type: ignore[return-value]

    async def steps(
        self, graph: CompiledStateGraph, thread_id: str, before: str | None
    ) -> StepsPage:
        """Read a page of steps."""
        found = [
            step
            async for step in graph.aget_state_history(
                thread_id=thread_id, before=before, limit=STEPS_MAX + 1
            )
        ]
        shown = tuple(found[:STEPS_MAX])
        more = len(found) > STEPS_MAX
        return StepsPage(shown, checkpoint_of(shown[-1]) if more else None)


def checkpoint_of(step: StateSnapshot) -> str:
    """Return the id of a step's checkpoint; "" for the state of a thread without any."""
    return str(step.config.get("configurable", {}).get("checkpoint_id") or "")


def parent_of(step: StateSnapshot) -> str:
    """Return the id of the checkpoint before a step; "" for the first."""
    return str((step.parent_config or {}).get("configurable", {}).get("checkpoint_id") or "")
