"""`run.subgraphs`: one object per subgraph run, with its projections."""

from typing import Any

from actorgraph.api.events.channel import StreamChannel
from actorgraph.api.events.nested import SubgraphStatus, SubgraphTracker
from actorgraph.api.events.protocol import ProtocolEvent
from actorgraph.api.events.readers import AsyncSubgraphRunStream, SubgraphRunStream
from actorgraph.values.streams import Namespace


class SubgraphTransformer(SubgraphTracker):
    """`run.subgraphs`: the direct subgraph runs; a deeper one is in its parent's `subgraphs`."""

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()
        self._handles: dict[Namespace, AsyncSubgraphRunStream] = {}

    def init(self) -> dict[str, Any]:
        """Return the channel `subgraphs`."""
        return {"subgraphs": self.channel}

    def tracks(self, namespace: Namespace) -> bool:
        """Track the next level only."""
        return self.below(namespace) == 1

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Track tasks, then pass the event to the subgraph run that it belongs to."""
        passes = await super().aprocess(event)
        place = tuple(event["params"]["namespace"])
        for namespace, handle in self._handles.items():
            if place[: len(namespace)] == namespace and not handle.done:
                await handle.receive(event)
        return passes

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """Push an object for the subgraph run to the reader."""
        assert self._mux is not None
        mux = self._mux.below(namespace)
        handle = AsyncSubgraphRunStream(mux, graph_name=name, trigger_call_id=task or None)
        self._handles[namespace] = handle
        self.channel.push(SubgraphRunStream(handle) if mux.blocking else handle)

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Close the projections of the subgraph run."""
        handle = self._handles.pop(namespace, None)
        if handle is not None:
            await handle.end(status, error)
