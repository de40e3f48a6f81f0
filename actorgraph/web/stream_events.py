"""Translate a graph's stream chunks to the events of LangGraph's server.

Pure: chunks in, named events out. Mode `messages` sends the metadata of a message once, the message
so far at each chunk, and the whole message; mode `messages-tuple` sends each chunk alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from actorgraph.values.stream_items import Namespace
from actorgraph.web.jsonable import to_plain
from actorgraph.web.problems import Unprocessable, public_reason, public_text

_SAME = ("values", "updates", "tasks", "checkpoints", "debug", "custom", "tools")
_SAME_AND_TUPLES = (*_SAME, "messages-tuple")
_CHUNKS = frozenset((*_SAME, "messages"))
MESSAGES_MAX = 256
"""Messages whose content so far is kept; one that continues after more others starts anew."""

_NEEDS = {**{mode: mode for mode in _SAME}, "messages": "messages", "messages-tuple": "messages"}


def graph_modes(modes: Sequence[str]) -> list[str]:
    """Return the modes that a graph must stream for a client's modes.

    Raises:
        Unprocessable: a mode is not supported.
    """
    for mode in modes:
        if mode not in _NEEDS:
            served = ", ".join(_NEEDS)
            raise Unprocessable(f"stream_mode must be one of {served}, got {mode!r}")
    return list(dict.fromkeys(_NEEDS[mode] for mode in modes))


class EventTranslator:
    """Translates the chunks of a run for one client.

    The values after a gap are sent in every mode.

    Args:
        modes: the client's; None for all, with messages in chunks.
        subgraphs: whether to send chunks of subgraphs.

    Attributes:
        is_stateful: whether the events of a chunk depend on earlier chunks.
    """

    def __init__(self, modes: Sequence[str] | None, *, subgraphs: bool) -> None:
        self._modes = frozenset(_SAME_AND_TUPLES if modes is None else modes)
        self.is_stateful = "messages" in self._modes
        self._subgraphs = subgraphs
        self._messages: dict[str, Any] = {}
        self._values_due = False

    def events(self, namespace: Namespace, mode: str, chunk: Any) -> list[tuple[str, Any]]:
        """Return the events, `(name, data)`, for a chunk or another event of the run."""
        if mode not in _CHUNKS:
            self._values_due |= mode == "gap"
            return [(mode, to_plain(_shown(mode, chunk)))]
        if mode == "values" and self._values_due and not namespace:
            self._values_due = False
            return [(mode, to_plain(chunk))]
        if namespace and not self._subgraphs and mode != "messages":
            return []
        below = "".join(f"|{part}" for part in namespace) if self._subgraphs else ""
        if mode != "messages":
            return [(mode + below, to_plain(chunk))] if mode in self._modes else []
        message, metadata = chunk
        found: list[tuple[str, Any]] = []
        if "messages-tuple" in self._modes:
            found.append(("messages" + below, to_plain([message, metadata])))
        if "messages" in self._modes:
            found.extend(self._whole(message, metadata, below))
        return found

    def acknowledge_gap(self) -> None:
        """Don't send the values after a gap: the client has them already."""
        self._values_due = False

    def _whole(self, message: Any, metadata: Any, below: str) -> Iterator[tuple[str, Any]]:
        identifier = str(getattr(message, "id", None) or "")
        known = self._messages.pop(identifier, None)
        if known is None:
            if len(self._messages) >= MESSAGES_MAX:  # drop the least recently continued one
                del self._messages[next(iter(self._messages))]
            yield f"messages/metadata{below}", to_plain({identifier: {"metadata": metadata}})
        if not type(message).__name__.endswith("Chunk"):
            self._messages[identifier] = message
            yield f"messages/complete{below}", to_plain([message])
            return
        together = message if known is None else known + message
        self._messages[identifier] = together
        yield f"messages/partial{below}", to_plain([together])


def _shown(kind: str, data: Any) -> Any:
    """Return the data of a run's event for clients, without texts of the storage."""
    if kind == "error" and "message" in data:
        return {**data, "message": public_text(data.get("error", ""), data.get("message", ""))}
    if kind in ("end", "drain") and data.get("reason"):
        return {**data, "reason": public_reason(data["reason"])}
    return data
