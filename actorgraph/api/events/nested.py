"""Graphs that run inside of a run: `run.lifecycle` tells of them, `run.subgraphs` reads them.

Both follow the events of all levels: a graph has started when its namespace first tells
something, and has ended when the task that it runs in ends.
"""

from typing import Any, Literal, NotRequired, TypedDict

from actorgraph.api.events.channel import StreamChannel
from actorgraph.api.events.protocol import ProtocolEvent, StreamTransformer
from actorgraph.errors import GraphBubbleUp, GraphDrained
from actorgraph.values.streams import Namespace

SubgraphStatus = Literal["started", "completed", "failed", "interrupted", "drained"]


class LifecyclePayload(TypedDict):
    """What happened to a graph inside of the run.

    graph_name: the node that runs it. trigger_call_id: the id of the task that it runs in.
    error: the text of what the task raised.
    """

    event: SubgraphStatus
    namespace: list[str]
    graph_name: NotRequired[str]
    trigger_call_id: NotRequired[str]
    error: NotRequired[str]


class GraphFollower(StreamTransformer):
    """Finds out which graphs inside of the run start and end."""

    _native = True
    _passes_on = True
    required_stream_modes = ("tasks",)

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._open: dict[Namespace, str] = {}
        self._seen: set[Namespace] = set()

    def follows(self, namespace: Namespace) -> bool:
        """Whether a graph is to be followed."""
        raise NotImplementedError

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """A graph has started: node `name` runs it in `task`."""
        raise NotImplementedError

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """A graph has ended, or waits."""
        raise NotImplementedError

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Follow the tasks; they are told by the projections, not by the run's log."""
        namespace, data = tuple(event["params"]["namespace"]), event["params"]["data"]
        if namespace not in self._seen and self.follows(namespace):
            self._seen.add(namespace)
            name, _, task = _segments(namespace)[-1].partition(":")
            self._open[namespace] = task
            await self.started(namespace, name, task)
        if event["method"] != "tasks":
            return True
        if "result" in data:
            for graph in [g for g, t in self._open.items() if t == data["id"]]:
                del self._open[graph]
                await self.ended(graph, *_status_of(data))
        return False

    async def afinalize(self) -> None:
        """Whatever is open has ended with the run."""
        for graph in list(self._open):
            await self.ended(graph, "completed", None)
        self._open.clear()

    async def afail(self, err: BaseException) -> None:
        """Whatever is open has ended as the run did."""
        status: SubgraphStatus = "failed"
        if isinstance(err, GraphBubbleUp):
            status = "drained" if isinstance(err, GraphDrained) else "interrupted"
        for graph in list(self._open):
            await self.ended(graph, status, str(err) if status == "failed" else None)
        self._open.clear()

    def below(self, namespace: Namespace) -> int:
        """How many levels a namespace is below the scope; 0 if it isn't."""
        if namespace[: len(self.scope)] != self.scope:
            return 0
        return len(_segments(namespace)) - len(_segments(self.scope))


def _segments(namespace: Namespace) -> list[str]:
    """The levels of a namespace: the numbers of a task's second and later graphs are none."""
    return [part for part in namespace if not part.isdigit()]


def _status_of(result: dict[str, Any]) -> tuple[SubgraphStatus, str | None]:
    if result["interrupts"]:
        return "interrupted", None
    return ("failed", result["error"]) if result["error"] else ("completed", None)


class LifecycleTransformer(GraphFollower):
    """`run.lifecycle`: what happens to every graph inside of the run, at any depth."""

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[LifecyclePayload] = StreamChannel("lifecycle")

    def init(self) -> dict[str, Any]:
        """The channel `lifecycle`."""
        return {"lifecycle": self.channel}

    def follows(self, namespace: Namespace) -> bool:
        """Every level below the run."""
        return self.below(namespace) > 0

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """Tell it."""
        told = LifecyclePayload(event="started", namespace=list(namespace), graph_name=name)
        if task:
            told["trigger_call_id"] = task
        self.channel.push(told)

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Tell it."""
        name, _, task = _segments(namespace)[-1].partition(":")
        told = LifecyclePayload(event=status, namespace=list(namespace), graph_name=name)
        if task:
            told["trigger_call_id"] = task
        if error is not None:
            told["error"] = error
        self.channel.push(told)
