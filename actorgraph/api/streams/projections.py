"""The built-in projections: one per stream mode, and the lifecycle of subgraphs.

`run.values`, `run.updates`, `run.custom` and so on hold the chunks of one mode. `run.lifecycle`
reports subgraph runs: one has started when its namespace emits its first event, and ended when
the task that it runs in ends.
"""

from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from actorgraph.api.streams.events import ProtocolEvent, StreamChannel, StreamTransformer
from actorgraph.errors import GraphBubbleUp, GraphDrained
from actorgraph.values.stream_items import Namespace


class _ModeTransformer(StreamTransformer):
    """The chunks of one mode, of the run itself, not of its subgraphs."""

    _native = True
    mode: ClassVar[str]

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()

    def init(self) -> dict[str, Any]:
        """Return the channel, under the mode's name."""
        return {self.mode: self.channel}

    def process(self, event: ProtocolEvent) -> bool:
        """Handle an event of the mode and the scope."""
        if event["method"] == self.mode and tuple(event["params"]["namespace"]) == self.scope:
            self.channel.push(event["params"]["data"])
        return True


class ValuesTransformer(_ModeTransformer):
    """`run.values`: the state after each superstep that changed it."""

    mode = "values"
    required_stream_modes = ("values",)


class UpdatesTransformer(_ModeTransformer):
    """`run.updates`: what each task returned."""

    mode = "updates"
    required_stream_modes = ("updates",)


class CustomTransformer(_ModeTransformer):
    """`run.custom`: what nodes wrote to their stream writer."""

    mode = "custom"
    required_stream_modes = ("custom",)


class CheckpointsTransformer(_ModeTransformer):
    """`run.checkpoints`: each stored checkpoint."""

    mode = "checkpoints"
    required_stream_modes = ("checkpoints",)


class DebugTransformer(_ModeTransformer):
    """`run.debug`: tasks and checkpoints with their superstep."""

    mode = "debug"
    required_stream_modes = ("debug",)


class TasksTransformer(_ModeTransformer):
    """`run.tasks`: the start and the result of each task."""

    mode = "tasks"
    required_stream_modes = ("tasks",)


SubgraphStatus = Literal["started", "completed", "failed", "interrupted", "drained"]


class LifecyclePayload(TypedDict):
    """A change of a subgraph run's status.

    Attributes:
        event: the new status.
        namespace: of the subgraph run.
        graph_name: the node that runs it.
        trigger_call_id: the id of the task that it runs in.
        error: the text of what the task raised.
    """

    event: SubgraphStatus
    namespace: list[str]
    graph_name: NotRequired[str]
    trigger_call_id: NotRequired[str]
    error: NotRequired[str]


class SubgraphTracker(StreamTransformer):
    """Tracks the start and the end of subgraph runs, from the events of all levels."""

    _native = True
    _never_waits = True
    required_stream_modes = ("tasks",)

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self._open: dict[Namespace, str] = {}
        self._seen: set[Namespace] = set()

    def tracks(self, namespace: Namespace) -> bool:
        """Whether to track the subgraph run with this namespace."""
        raise NotImplementedError

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """Handle the start of a subgraph run: node `name` runs it in `task`."""
        raise NotImplementedError

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Handle the end of a subgraph run, or its wait at an interrupt."""
        raise NotImplementedError

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Track tasks; their events reach projections, but not the run's log."""
        namespace, data = tuple(event["params"]["namespace"]), event["params"]["data"]
        if namespace not in self._seen and self.tracks(namespace):
            self._seen.add(namespace)
            name, _, task = _segments(namespace)[-1].partition(":")
            self._open[namespace] = task
            await self.started(namespace, name, task)
        if event["method"] != "tasks":
            return True
        if "result" in data:
            for graph in [g for g, t in self._open.items() if t == data["id"]]:
                del self._open[graph]
                await self.ended(graph, *status_of_result(data))
        return False

    async def afinalize(self) -> None:
        """End the open subgraph runs with the run."""
        for graph in list(self._open):
            await self.ended(graph, "completed", None)
        self._open.clear()

    async def afail(self, err: BaseException) -> None:
        """End the open subgraph runs as the run did."""
        for graph in list(self._open):
            await self.ended(graph, *status_of_error(err))
        self._open.clear()

    def below(self, namespace: Namespace) -> int:
        """Return how many levels a namespace is below the scope; 0 if it isn't."""
        if namespace[: len(self.scope)] != self.scope:
            return 0
        return len(_segments(namespace)) - len(_segments(self.scope))


def _segments(namespace: Namespace) -> list[str]:
    """Return the levels of a namespace, without the numbers of a task's further subgraph calls."""
    return [part for part in namespace if not part.isdigit()]


def status_of_error(error: BaseException) -> tuple[SubgraphStatus, str | None]:
    """Return how a subgraph run ended whose run was ended by an error."""
    if isinstance(error, GraphBubbleUp):
        return ("drained" if isinstance(error, GraphDrained) else "interrupted"), None
    return "failed", str(error)


def status_of_result(result: dict[str, Any]) -> tuple[SubgraphStatus, str | None]:
    """Return how a subgraph run ended, by the payload of the task that it ran in."""
    if result["interrupts"]:
        return "interrupted", None
    return ("failed", result["error"]) if result["error"] else ("completed", None)


class LifecycleTransformer(SubgraphTracker):
    """`run.lifecycle`: the status changes of every subgraph run, at any depth."""

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[LifecyclePayload] = StreamChannel("lifecycle")

    def init(self) -> dict[str, Any]:
        """Return the channel `lifecycle`."""
        return {"lifecycle": self.channel}

    def tracks(self, namespace: Namespace) -> bool:
        """Track every level below the run."""
        return self.below(namespace) > 0

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """Report it."""
        payload = LifecyclePayload(event="started", namespace=list(namespace), graph_name=name)
        if task:
            payload["trigger_call_id"] = task
        self.channel.push(payload)

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Report it."""
        name, _, task = _segments(namespace)[-1].partition(":")
        payload = LifecyclePayload(event=status, namespace=list(namespace), graph_name=name)
        if task:
            payload["trigger_call_id"] = task
        if error is not None:
            payload["error"] = error
        self.channel.push(payload)
