"""Subscriptions of the streaming protocol: which events a client asked for.

Channels partition the events by concern, namespaces by their place in the graph. Source: Agent
Protocol's `streaming/protocol.cddl`; segments of a namespace match as in langgraph-sdk.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

CHANNELS = (
    "values",
    "updates",
    "messages",
    "tools",
    "lifecycle",
    "input",
    "checkpoints",
    "tasks",
    "custom",
)

Channel = Annotated[str, Meta(pattern=rf"^({'|'.join(CHANNELS)}|custom:.+)$", max_length=255)]
Prefix = Annotated[list[str], Meta(max_length=100)]


class EventStreamRequest(Struct):
    """Events of a thread to send: of channels, below namespaces, after a number.

    Without `since` the stream begins with the newest run, or the oldest one that is still open.
    `depth` is how far below the namespaces an event may be; default: any distance.
    """

    channels: Annotated[list[Channel], Meta(min_length=1, max_length=100)]
    namespaces: Annotated[list[Prefix], Meta(max_length=1000)] | None = None
    depth: Annotated[int, Meta(ge=0)] | None = None
    since: Annotated[int, Meta(ge=0, lt=2**53)] | None = None


class Filter:
    """Decides which events a subscription gets."""

    def __init__(self, wanted: EventStreamRequest) -> None:
        self._channels = frozenset(wanted.channels)
        self._namespaces = wanted.namespaces
        self._depth = wanted.depth

    def takes(self, method: str, namespace: Sequence[str], data: Any) -> bool:
        """Whether the subscription gets an event."""
        channel = channel_of(method, data)
        if channel not in self._channels and not (
            channel.startswith("custom:") and "custom" in self._channels
        ):
            return False
        if not self._namespaces:
            return True
        return any(self._is_below(namespace, prefix) for prefix in self._namespaces)

    def _is_below(self, namespace: Sequence[str], prefix: Sequence[str]) -> bool:
        if len(prefix) > len(namespace) or not all(map(_same, namespace, prefix)):
            return False
        return self._depth is None or len(namespace) - len(prefix) <= self._depth


def channel_of(method: str, data: Any) -> str:
    """Return the channel of an event; named custom events have one each."""
    if method == "input.requested":
        return "input"
    name = data.get("name") if method == "custom" and isinstance(data, dict) else None
    return f"custom:{name}" if name else method


def _same(segment: str, wanted: str) -> bool:
    """Whether a segment, `node:task`, is the wanted one: the whole segment, or the node alone."""
    return segment == wanted or (":" not in wanted and segment.partition(":")[0] == wanted)
