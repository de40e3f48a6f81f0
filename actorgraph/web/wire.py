"""Stream modes on the wire: which modes of a graph a client's modes need, and what its events say.

Pure: chunks in, named events out. `messages` is told as LangGraph's server tells it: metadata of a
message once, the message so far at each piece, and the whole message; `messages-tuple` tells each
piece alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from actorgraph.values.streams import Namespace
from actorgraph.web.jsonable import plain
from actorgraph.web.problems import Unprocessable, shown, shown_reason

_SAME = ("values", "updates", "tasks", "checkpoints", "debug", "custom", "tools")
_SAME_AND_TUPLES = (*_SAME, "messages-tuple")
_CHUNKS = frozenset((*_SAME, "messages"))
MESSAGES_MAX = 256
"""Messages of which a reader knows what it was told; one that comes after more is told anew."""

_NEEDS = {**{mode: mode for mode in _SAME}, "messages": "messages", "messages-tuple": "messages"}


def graph_modes(modes: Sequence[str]) -> list[str]:
    """The modes that a graph must stream for a client's modes.

    Raises:
        Unprocessable: one isn't served.
    """
    for mode in modes:
        if mode not in _NEEDS:
            served = ", ".join(_NEEDS)
            raise Unprocessable(f"stream_mode {mode!r} is not served; the modes are {served}")
    return list(dict.fromkeys(_NEEDS[mode] for mode in modes))


class Wire:
    """One reader's view of a run's chunks.

    Args:
        modes: the client's; None for all that there are, messages in pieces.
        subgraphs: whether chunks of graphs inside are shown too.

    The values that follow a gap are told whatever the modes are.

    Attributes:
        remembers: whether what it says of a chunk depends on those before it.
    """

    def __init__(self, modes: Sequence[str] | None, *, subgraphs: bool) -> None:
        self._modes = frozenset(_SAME_AND_TUPLES if modes is None else modes)
        self.remembers = "messages" in self._modes
        self._subgraphs = subgraphs
        self._messages: dict[str, Any] = {}
        self._owes_values = False

    def events(self, namespace: Namespace, mode: str, chunk: Any) -> Iterator[tuple[str, Any]]:
        """`(name, data)` of each event that tells a chunk, or what else happened to the run."""
        if mode not in _CHUNKS:
            self._owes_values |= mode == "gap"
            yield mode, plain(_shown(mode, chunk))
            return
        if mode == "values" and self._owes_values and not namespace:
            self._owes_values = False
            yield mode, plain(chunk)
            return
        if namespace and not self._subgraphs and mode != "messages":
            return
        below = "".join(f"|{part}" for part in namespace) if self._subgraphs else ""
        if mode != "messages":
            if mode in self._modes:
                yield mode + below, plain(chunk)
            return
        message, metadata = chunk
        if "messages-tuple" in self._modes:
            yield "messages" + below, plain([message, metadata])
        if "messages" in self._modes:
            yield from self._whole(message, metadata, below)

    def forgive(self) -> None:
        """What was just told of a gap, the client has."""
        self._owes_values = False

    def _whole(self, message: Any, metadata: Any, below: str) -> Iterator[tuple[str, Any]]:
        identifier = str(getattr(message, "id", None) or "")
        known = self._messages.pop(identifier, None)
        if known is None:
            if len(self._messages) >= MESSAGES_MAX:  # the one that was silent longest
                del self._messages[next(iter(self._messages))]
            yield f"messages/metadata{below}", {identifier: {"metadata": plain(metadata)}}
        if not type(message).__name__.endswith("Chunk"):
            self._messages[identifier] = message
            yield f"messages/complete{below}", [plain(message)]
            return
        together = message if known is None else known + message
        self._messages[identifier] = together
        yield f"messages/partial{below}", [plain(together)]


def _shown(kind: str, data: Any) -> Any:
    """What a client is told of what happened to a run."""
    if kind == "error" and "message" in data:
        return {**data, "message": shown(data.get("error", ""), data.get("message", ""))}
    if kind in ("end", "drain") and data.get("reason"):
        return {**data, "reason": shown_reason(data["reason"])}
    return data
