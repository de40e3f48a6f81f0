"""Nodes and steps of libraries that read the types of a function's signature.

They look names up in the function's module, so these are at the top of a file; each half exists
where its library is installed.
"""

from dataclasses import dataclass
from typing import Any

try:
    from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext
    from workflows import Workflow, step
    from workflows.events import Event, StartEvent, StopEvent
except ImportError as missing:
    raise SystemExit(f"not in the environment of the other libraries: {missing}") from missing


@dataclass
class Counted:
    """The state of pydantic-graph's run."""

    limit: int
    count: int = 0


@dataclass
class Count(BaseNode[Counted, None, int]):
    """The node that counts."""

    async def run(self, ctx: GraphRunContext[Counted]) -> "Count | End[int]":
        """Count one up; go on with itself or end."""
        ctx.state.count += 1
        return Count() if ctx.state.count < ctx.state.limit else End(ctx.state.count)


def pydantic_graph() -> tuple[Any, type[Counted]]:
    """The graph, and its state's class."""
    builder = GraphBuilder(state_type=Counted, output_type=int)

    @builder.step
    async def start(ctx: Any) -> Count:
        return Count()

    builder.add(builder.node(Count), builder.edge_from(builder.start_node).to(start))
    return builder.build(), Counted


class Step(Event):
    """The event that starts the step again."""

    count: int
    limit: int


class Counter(Workflow):
    """A step that counts."""

    @step
    async def begin(self, event: StartEvent) -> Step:
        """Read the limit."""
        return Step(count=0, limit=event.limit)

    @step
    async def add(self, event: Step) -> Step | StopEvent:
        """Count one up; go on with itself or end."""
        count = event.count + 1
        return Step(count=count, limit=event.limit) if count < event.limit else StopEvent(count)


def workflow() -> Counter:
    """The workflow, without a time limit."""
    return Counter(timeout=None)
