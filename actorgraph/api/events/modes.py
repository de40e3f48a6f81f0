"""The built-in projections: one per stream mode, and the lifecycle of subgraphs.

`run.values`, `run.updates`, `run.custom` and so on hold the chunks of one mode. `run.lifecycle`
reports subgraph runs: one has started when its namespace emits its first event, and ended when
the task that it runs in ends.
"""

from typing import Any, ClassVar

from actorgraph.api.events.channel import StreamChannel
from actorgraph.api.events.protocol import ProtocolEvent, StreamTransformer
from actorgraph.values.streams import Namespace


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
