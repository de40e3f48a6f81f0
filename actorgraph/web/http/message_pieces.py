"""Pieces of messages for clients: what was said once isn't converted, or sent, again.

A model's message comes in dozens of pieces that differ in their text alone. `PlainPieces` converts
the first one, and of those after it what differs. `compact_piece` makes of a later piece what a
client needs that has the first one:

- `[message, metadata]`: the first piece on a connection, a whole message, or one that differs
- `{"content": "to"}`: more text of the message of the event before; with `id` if that was of
  another message

Pure: what a piece becomes depends on the pieces before it alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.message_attempts import add_bounded

_KINDS = frozenset({type(None), str, bool, dict, list, tuple})
"""Types of a field whose value is known to be nothing if it is false."""

_REPEATED = frozenset({"id", "type", "name", "response_metadata"})
"""Fields that each piece repeats; a client that joins pieces takes them once."""


class PlainPiece(NamedTuple):
    """A piece as JSON.

    Attributes:
        message: the message's fields.
        metadata: where in the run it comes from.
        adds: the text that it adds to the piece before, if it adds nothing else; else None.
        id: the message's.
    """

    message: dict[str, Any]
    metadata: Any
    adds: str | None
    id: str


class _Begun(NamedTuple):
    """The first piece of a message.

    Attributes:
        kind: the piece's class.
        fields: its attributes; of dicts and lists the JSON.
        message: the message as JSON.
        given: the metadata as the piece had it.
        metadata: the metadata as JSON.
    """

    kind: type
    fields: Mapping[str, Any]
    message: dict[str, Any]
    given: Any
    metadata: Any


def dropped(ids: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the events, `(name, data)`, that say which messages are dropped."""
    return [("messages/dropped", {"ids": [*ids]})] if ids else []


class CompactMessages:
    """The compact form of messages for one client; see the module's docstring."""

    def __init__(self) -> None:
        self._before: str | None = None  # the message of the last event, whatever its name
        self._said: dict[str, None] = {}  # messages that this connection has the first piece of

    def restart(self) -> None:
        """Begin all messages anew: a client that comes back may have forgotten them."""
        self._said.clear()

    def drop(self, ids: Sequence[str]) -> list[tuple[str, Any]]:
        """Return the events, `(name, data)`, for messages that are dropped."""
        for one in ids:  # also one that is written anew with its id: its text begins anew
            self._said.pop(one, None)
        return dropped(ids)

    def events(self, piece: PlainPiece, below: str) -> list[tuple[str, Any]]:
        """Return the events, `(name, data)`, for a piece or a whole message.

        Args:
            below: the end of the events' names: the subgraph that the piece is from.
        """
        name = f"messages{below}"
        before, self._before = self._before, piece.id
        if piece.adds is not None and piece.id in self._said:
            text = {"content": piece.adds}
            return [(name, text if before == piece.id else {**text, "id": piece.id})]
        add_bounded(self._said, piece.id, None)
        return [(name, [piece.message, piece.metadata])]


class PlainPieces:
    """Converts the pieces of messages for one client, in order."""

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}

    def convert(self, message: Any, metadata: Any) -> PlainPiece:
        """Return a piece as JSON, the same that `to_plain` returns for it."""
        identifier = getattr(message, "id", None)
        begun = self._begun.get(identifier) if type(identifier) is str else None
        if begun is not None and type(identifier) is str and type(message) is begun.kind:
            text = _text_alone(message, begun)
            if text is not None:
                known = _is_same(metadata, begun.given)
                shown = begun.metadata if known else to_plain(metadata)
                plain = {**begun.message, "content": text}
                return PlainPiece(plain, shown, text if known else None, identifier)
        plain, shown = to_plain(message), to_plain(metadata)
        if type(identifier) is str and isinstance(plain, dict) and is_piece(message):
            self._remember(identifier, message, plain, metadata, shown)
        return PlainPiece(plain, shown, None, str(identifier or ""))

    def _remember(
        self, identifier: str, message: Any, plain: dict[str, Any], metadata: Any, shown: Any
    ) -> None:
        fields = _fields_of(message)
        text = None if fields is None else fields.get("content")
        # With computed fields, or ones that are written otherwise, text may be in several places.
        if fields is None or type(text) is not str or plain.get("content") != text:
            return
        if plain.keys() - {"type"} != fields.keys() - {"type"}:
            return
        snapshot = {name: _snapshot(value) for name, value in fields.items() if name != "content"}
        add_bounded(
            self._begun, identifier, _Begun(type(message), snapshot, plain, metadata, shown)
        )


def is_piece(message: Any) -> bool:
    """Whether a message is a piece of one that a model is still writing."""
    return type(message).__name__.endswith("Chunk")


def _text_alone(message: Any, begun: _Begun) -> str | None:
    """Return a piece's text if all else is as in the piece that is remembered; else None.

    What adds up from piece to piece, such as the arguments of a tool call, counts as the same only
    if there is none: two equal parts of a text are two.
    """
    fields = _fields_of(message)
    if fields is None or len(fields) != len(begun.fields) + 1:
        return None
    text = fields.get("content")
    if type(text) is not str:
        return None
    for name, before in begun.fields.items():
        value = fields.get(name, ...)
        if type(value) not in _KINDS or type(value) is not type(before):
            return None
        if value:
            if name not in _REPEATED or _snapshot(value) != before:
                return None
        elif before:
            return None
    return text if text.isascii() else to_plain(text)


def _is_same(metadata: Any, other: Any) -> bool:
    if type(metadata) is not dict or type(other) is not dict or metadata.keys() != other.keys():
        return False
    try:
        return all(
            value is other[name] or (type(value) is type(other[name]) and value == other[name])
            for name, value in metadata.items()
        )
    except Exception:  # noqa: BLE001 - the equality of a program's object may raise anything
        return False


def _snapshot(value: Any) -> Any:
    """Return a field's value so that later changes of it don't change what is remembered."""
    return to_plain(value) if value and isinstance(value, dict | list | tuple) else value


def _fields_of(message: Any) -> Mapping[str, Any] | None:
    """Return a message's attributes; None if it may have others."""
    if getattr(message, "__pydantic_extra__", None):
        return None
    return getattr(message, "__dict__", None)
