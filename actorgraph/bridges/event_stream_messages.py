"""Messages of models that are not LangChain's, in LangChain's event streams.

A node sends them with `get_message_writer()`. LangChain has no callbacks for them: its handlers
take only messages of its own classes. So they are put into the event streams that read the run.
"""

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any
from uuid import UUID, uuid4

from langchain_core.tracers.event_stream import (
    _AstreamEventsCallbackHandler,  # pyright: ignore[reportPrivateUsage] - it has no other name
)


class MessagePieces:
    """The messages that one node sends piece by piece; each is a model of the event stream.

    Args:
        handlers: of the node's run; those of event streams are used.
        above: id of the node's run.
        metadata: of the node.
    """

    def __init__(self, handlers: list[Any], above: UUID, metadata: Mapping[str, Any]) -> None:
        self._streams: list[Any] = [
            h for h in handlers if isinstance(h, _AstreamEventsCallbackHandler)
        ]
        self._above = above
        self._metadata = dict(metadata)
        self._open: dict[Any, tuple[dict[str, Any], list[Any]]] = {}

    def offer(self, piece: Any, metadata: Mapping[str, Any]) -> None:
        """Send a piece, if a model's metadata are with it; else it is a whole message."""
        if not self._streams or not any(k in metadata for k in ("ls_provider", "ls_model_type")):
            return
        if piece.id not in self._open:
            self._open[piece.id] = self._span(metadata), []
            self._send(self._open[piece.id][0], "start", {})
        span, pieces = self._open[piece.id]
        pieces.append(piece)
        self._send(span, "stream", {"chunk": piece})
        if getattr(piece, "chunk_position", None) == "last":
            self._end(piece.id)

    def close(self) -> None:
        """End the messages whose last piece wasn't marked."""
        for identifier in list(self._open):
            self._end(identifier)

    def _end(self, identifier: Any) -> None:
        span, pieces = self._open.pop(identifier)
        self._send(span, "end", {"output": joined(pieces)})

    def _span(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": metadata.get("ls_model_name") or metadata.get("ls_provider", "model"),
            "run_id": str(uuid4()),
            "tags": list(metadata.get("tags", ())),
            "metadata": {**self._metadata, **{k: v for k, v in metadata.items() if k != "tags"}},
        }

    def _send(self, span: Mapping[str, Any], what: str, data: dict[str, Any]) -> None:
        for stream in self._streams:
            above = [*stream._get_parent_ids(self._above), str(self._above)]  # noqa: SLF001
            event = {**span, "event": f"on_chat_model_{what}", "data": data, "parent_ids": above}
            stream._send(event, "chat_model")  # noqa: SLF001 - it has no public way in


def joined(pieces: list[Any]) -> Any:
    """Add the pieces of a message; the last one if they can't be added."""
    try:
        return reduce(add, pieces)
    except TypeError:
        return pieces[-1]
