"""`run.subgraphs`: a handle for each graph that runs inside of the run, with its projections.

Only direct children: a grandchild is on its parent's handle.
"""

from typing import Any

from actorgraph.api.events.channel import StreamChannel
from actorgraph.api.events.nested import GraphFollower, SubgraphStatus
from actorgraph.api.events.protocol import ProtocolEvent
from actorgraph.api.events.readers import AsyncSubgraphRunStream, SubgraphRunStream
from actorgraph.values.streams import Namespace


class SubgraphTransformer(GraphFollower):
    """Makes the handles, and passes each the events of its graph and of those inside of it."""

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()
        self._handles: dict[Namespace, AsyncSubgraphRunStream] = {}

    def init(self) -> dict[str, Any]:
        """The channel `subgraphs`."""
        return {"subgraphs": self.channel}

    def follows(self, namespace: Namespace) -> bool:
        """The next level only."""
        return self.below(namespace) == 1

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Follow the tasks, then pass the event on to the graph that it belongs to."""
        passes = await super().aprocess(event)
        place = tuple(event["params"]["namespace"])
        for namespace, handle in self._handles.items():
            if place[: len(namespace)] == namespace and not handle.done:
                await handle.receive(event)
        return passes

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """Hand out a handle."""
        assert self._mux is not None
        mux = self._mux.below(namespace)
        handle = AsyncSubgraphRunStream(mux, graph_name=name, trigger_call_id=task or None)
        self._handles[namespace] = handle
        self.channel.push(SubgraphRunStream(handle) if mux.blocking else handle)

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Close the handle's projections."""
        handle = self._handles.pop(namespace, None)
        if handle is not None:
            await handle.end(status, error)
