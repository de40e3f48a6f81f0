"""Which events a client gets of a run's chunks: LangGraph's server's, or an EventStream's.

Pure: chunks of a run in, `(name, data)` out, in order. Mode `messages` sends the metadata of a
message once, the message so far at each chunk, and the whole message; mode `messages-tuple` sends
each chunk alone; the compact form says a message's fields once (`message_pieces`). Of messages
that are dropped (`message_attempts`) the compact form says so; for mode `messages` they begin anew.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from actorgraph.internals import LANGCHAIN_EVENT_MODES as MODES
from actorgraph.internals import STREAM_MODES, Namespace, SpanEvents, StreamEvent
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.message_attempts import MessageAttempts
from actorgraph.web.http.message_pieces import CompactMessages, PlainPieces, dropped
from actorgraph.web.http.problems import Unprocessable, public_reason, public_text

RETRY = "retry"
"""An event of the run that clients don't get: it says which messages are dropped."""
EVENTS = "events"
"""The mode of LangChain's events, which are made of the chunks of other modes."""

SAME = tuple(mode for mode in STREAM_MODES if mode != "messages")
_SAME_AND_TUPLES = (*SAME, "messages-tuple")
_CHUNKS = frozenset((*SAME, "messages"))
MESSAGES_MAX = 256
"""Messages whose content so far is kept; one that continues after more others starts anew."""

_NEEDS = {
    **{mode: (mode,) for mode in SAME},
    "messages": ("messages",),
    "messages-tuple": ("messages",),
    EVENTS: MODES,
}


def graph_modes(modes: Sequence[str]) -> list[str]:
    """Return the modes that a graph must stream for a client's modes.

    Raises:
        Unprocessable: a mode is not supported.
    """
    needed: dict[str, None] = {}
    for mode in modes:
        if mode not in _NEEDS:
            served = ", ".join(_NEEDS)
            raise Unprocessable(f"stream_mode must be one of {served}, got {mode!r}")
        needed |= dict.fromkeys(_NEEDS[mode])
    return list(needed)


class EventTranslator:
    """Translates the chunks of a run for one client.

    The values after a gap are sent in every mode.

    Args:
        modes: the client's; None for all, with messages in chunks.
        subgraphs: whether to send chunks of subgraphs.
        spans: makes the events of mode "events"; without it that mode has none.
        compact: whether the chunks of messages are sent in the form of `CompactMessages`.
        tells_drops: whether the client is told which messages are dropped: an event of ours, which
            LangGraph's clients don't know. The compact form always does.

    Attributes:
        is_stateful: whether the events of a chunk depend on earlier chunks.
        has_values: whether its events have whole states, which take long to translate.
        has_left: whether the events ended without the run's end: it goes on elsewhere, or later.
    """

    has_values = True

    def __init__(
        self,
        modes: Sequence[str] | None,
        *,
        subgraphs: bool,
        spans: SpanEvents | None = None,
        compact: bool = False,
        tells_drops: bool = False,
    ) -> None:
        wanted = _SAME_AND_TUPLES if modes is None else modes
        if compact:
            wanted = ["messages-tuple" if mode == "messages" else mode for mode in wanted]
        self._modes = frozenset(wanted)
        self._pieces = PlainPieces()
        self._compact = CompactMessages() if compact else None
        self._spans = spans if EVENTS in self._modes else None
        self._begun = False
        drops = (compact or tells_drops) and "messages-tuple" in self._modes
        self._tells_drops = drops
        follows = "messages" in self._modes or drops
        self._attempts = MessageAttempts() if follows else None
        self.is_stateful = follows or self._spans is not None
        self.has_left = False
        self._subgraphs = subgraphs
        self._messages: dict[str, Any] = {}
        self._values_due = False

    def events(self, namespace: Namespace, mode: str, chunk: Any) -> list[tuple[str, Any]]:
        """Return the events, `(name, data)`, for a chunk or another event of the run."""
        found = self._chunk_events(namespace, mode, chunk)
        if self._spans is None:
            return found
        made = [(EVENTS, to_plain(one)) for one in self._span_events(namespace, mode, chunk)]
        return [*made, *found] if mode == "end" else [*found, *made]

    def _span_events(self, namespace: Namespace, mode: str, chunk: Any) -> Iterator[StreamEvent]:
        assert self._spans is not None
        if not self._begun:  # at the run's first event, or the first one that is left
            self._begun = True
            yield from self._spans.begin()
        if mode == "end" and chunk.get("status") in ("success", "interrupted"):
            yield from self._spans.end()
        elif mode in MODES:
            yield from self._spans.of({"ns": namespace, "type": mode, "data": chunk})

    def replay(self, namespace: Namespace, mode: str, chunk: Any) -> None:
        """Take an event that the client has, in order: those that follow depend on it."""
        if self._spans is not None:
            for _ in self._span_events(namespace, mode, chunk):
                pass
        self._drop(self._gone(mode, chunk))
        if mode == "messages" and "messages" in self._modes:
            self._join(chunk[0])

    def _gone(self, mode: str, chunk: Any) -> list[str]:
        """Return the messages that are dropped since an event."""
        if self._attempts is None:
            return []
        if mode == "messages":
            return self._attempts.note(_id_of(chunk[0]), chunk[1])
        if mode == "metadata":
            self._attempts.begin_run()
        elif mode == RETRY:
            return self._attempts.begin_task(chunk["task"])
        return []

    def _drop(self, gone: Sequence[str]) -> list[tuple[str, Any]]:
        for one in gone:
            self._messages.pop(one, None)
        if self._compact is not None:
            return self._compact.drop(gone)
        return dropped(gone) if self._tells_drops else []

    def _chunk_events(self, namespace: Namespace, mode: str, chunk: Any) -> list[tuple[str, Any]]:
        found = self._drop(self._gone(mode, chunk))
        if mode == RETRY:
            return found
        if mode not in _CHUNKS:
            self._values_due |= mode == "gap"
            self.has_left |= mode == "drain"
            if mode == "gap" and self._compact is not None:
                self._compact.restart()
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
        if "messages-tuple" in self._modes:
            piece = self._pieces.convert(message, metadata)
            if self._compact is not None:
                found += self._compact.events(piece, below)
            else:
                found.append(("messages" + below, [piece.message, piece.metadata]))
        if "messages" in self._modes:
            found.extend(self._whole(message, metadata, below))
        return found

    def acknowledge_gap(self) -> None:
        """Don't send the values after a gap: the client has them already."""
        self._values_due = False

    def owe_values(self) -> None:
        """Send the next values: the client has the gap before them."""
        self._values_due = True

    def reconnect(self) -> None:
        """Begin messages anew: the client had the chunks so far on another connection."""
        if self._compact is not None:
            self._compact.restart()

    def _whole(self, message: Any, metadata: Any, below: str) -> Iterator[tuple[str, Any]]:
        identifier = _id_of(message)
        if identifier not in self._messages:
            yield f"messages/metadata{below}", to_plain({identifier: {"metadata": metadata}})
        state = "partial" if type(message).__name__.endswith("Chunk") else "complete"
        yield f"messages/{state}{below}", to_plain([self._join(message)])

    def _join(self, message: Any) -> Any:
        """Add a piece to its message, or take a whole message; returns the message so far."""
        identifier = _id_of(message)
        known = self._messages.pop(identifier, None)
        if known is None and len(self._messages) >= MESSAGES_MAX:
            del self._messages[next(iter(self._messages))]  # the least recently continued one
        is_piece = type(message).__name__.endswith("Chunk") and known is not None
        self._messages[identifier] = together = known + message if is_piece else message
        return together


def _id_of(message: Any) -> str:
    return str(getattr(message, "id", None) or "")


def _shown(kind: str, data: Any) -> Any:
    """Return the data of a run's event for clients, without texts of the storage."""
    if kind == "error" and "message" in data:
        return {**data, "message": public_text(data.get("error", ""), data.get("message", ""))}
    if kind in ("end", "drain") and data.get("reason"):
        return {**data, "reason": public_reason(data["reason"])}
    return data
