"""Values and versions for savers with LangGraph's interface.

Classes    Send, Interrupt and Overwrite become LangGraph's, where the program has imported it, so
           that LangGraph's serializers and tools can read them. Nothing is imported here
Payloads   such a saver encodes values itself: here a payload is an empty one that carries a copy
           of its value, so that later changes by a node don't change the saved one
Versions   ours are integers; a saver may count with text or floats. LangGraph's text is the number,
           a dot and a random part, so a version that the parent has keeps its text
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, cast

from actorgraph.codec import Codec
from actorgraph.codec.encryption import NOWHERE, Place
from actorgraph.errors import SerializationError
from actorgraph.values.commands import Interrupt, Overwrite, Send
from actorgraph.values.from_langgraph import from_langgraph, langgraph_module
from actorgraph.values.policies import TimeoutPolicy

_TYPES = "langgraph.types"


def convert_to_langgraph(value: Any) -> Any:
    """Convert a value, or the items of a list or tuple, to LangGraph's classes."""
    types = langgraph_module(_TYPES)
    return value if types is None else _mapped(value, lambda item: _theirs(types, item))


def convert_from_langgraph(value: Any) -> Any:
    """Convert a value, or the items of a list or tuple, to our classes."""
    return _mapped(value, _ours)


def _mapped(value: Any, change: Any) -> Any:
    if type(value) is list:
        return [change(item) for item in cast("list[Any]", value)]
    if type(value) is tuple:
        return tuple(change(item) for item in cast("tuple[Any, ...]", value))
    return change(value)


def _theirs(types: Any, item: Any) -> Any:
    if type(item) is Send:
        limit = TimeoutPolicy.coerce(item.timeout)
        if limit is None:
            return types.Send(item.node, item.arg)
        made = types.TimeoutPolicy(
            run_timeout=limit.run_timeout,
            idle_timeout=limit.idle_timeout,
            refresh_on=limit.refresh_on,
        )
        return types.Send(item.node, item.arg, timeout=made)
    if type(item) is Interrupt:
        schema = item.response_schema
        more = {} if schema is None else {"response_schema": schema}
        return types.Interrupt(value=item.value, id=item.id, **more)
    if type(item) is Overwrite:
        return types.Overwrite(value=item.value)
    return item


def _ours(item: Any) -> Any:
    kind = type(item)
    if not kind.__module__.startswith("langgraph."):
        return item
    return item.value if kind.__name__ == "_DeltaSnapshot" else from_langgraph(item)


class LivePayload(bytes):
    """An empty payload that carries a value."""

    value: Any

    def __radd__(self, head: bytes) -> "LivePayload":
        """Return itself: the codec's frame is put around bytes, and here are none."""
        return self


def live_payload(value: Any) -> LivePayload:
    """Make a payload that carries a value; the caller must not change the value any more."""
    made = LivePayload(b"")
    made.value = value
    return made


def value_of(payload: bytes) -> Any:
    """Return the value of a payload, not copied."""
    assert isinstance(payload, LivePayload)
    return payload.value


class LiveCodec(Codec):
    """Copies values instead of encoding them; the saver's own serializer encodes them."""

    def encode(self, value: Any, path: str = "value", place: Place = NOWHERE) -> bytes:
        """Return a payload that carries a copy of the value.

        Raises:
            SerializationError: it can't be copied.
        """
        try:
            return live_payload(deepcopy(value))
        except Exception as error:
            raise SerializationError(
                f"{path} can't be copied: {error}",
                do="store plain data in the state; UntrackedValue keeps a value out of checkpoints",
            ) from error

    def decode(self, payload: bytes, place: Place = NOWHERE) -> Any:
        """Return a copy of the value: the saver may keep the object that it was given."""
        return (
            deepcopy(payload.value)
            if isinstance(payload, LivePayload)
            else super().decode(payload, place)
        )

    def count(self, payload: bytes, place: Place = NOWHERE) -> int:
        """Return the number of items of a list."""
        return len(value_of(payload))

    @property
    def at_rest(self) -> Codec:
        """A codec that encodes to bytes, for caches."""
        return Codec(self.types)


Seen = Mapping[str, Mapping[str, Any]]


def number_of(version: Any) -> int:
    """Return the number with which a version begins.

    Raises:
        SerializationError: it doesn't begin with one.
    """
    if isinstance(version, (int, float)):
        return int(version)
    try:
        return int(str(version).partition(".")[0] or 0)
    except ValueError:
        raise SerializationError(
            f"version {version!r} of a channel doesn't begin with a number",
            do="let the saver's get_next_version() return numbers, or text that begins with one",
        ) from None


def numbers_of(versions: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of each channel's version."""
    return {channel: number_of(version) for channel, version in versions.items()}


class SaverStyle:
    """The type of a saver's versions, and the classes in which it gets values.

    Attributes:
        shown: converts values to LangGraph's classes; returns them unchanged for a saver of ours
            whose class overrides some of its methods.
    """

    def __init__(self, saver: Any) -> None:
        ours = hasattr(saver, "close_blocking")
        self.shown: Callable[[Any], Any] = _same if ours else convert_to_langgraph
        try:
            first = saver.get_next_version(None, None)
        except Exception:  # noqa: BLE001 - a saver without a working method gets integers
            first = 1
        self._type = type(first)

    def written(self, number: int) -> Any:
        """Return a new version in the saver's type."""
        if self._type is str:
            return f"{number:032}.{0:016}"
        return float(number) if self._type is float else number


def _same(value: Any) -> Any:
    return value


class ParentVersions:
    """Versions of a parent checkpoint, which keep the form in which the saver has them.

    Args:
        style: for versions that the parent doesn't have.
        versions: the parent's channel versions.
        seen: the parent's versions seen, by node.
    """

    def __init__(self, style: SaverStyle, versions: Mapping[str, Any], seen: Seen) -> None:
        self._style = style
        self._known: dict[tuple[str, int], Any] = {}
        for channels in (*seen.values(), versions):
            for channel, version in channels.items():
                self._known[channel, number_of(version)] = version

    def written(self, channel: str, number: int) -> Any:
        """Return a channel's version in the saver's form."""
        known = self._known.get((channel, number))
        return self._style.written(number) if known is None else known

    def all_written(self, versions: Mapping[str, int]) -> dict[str, Any]:
        """Return several channels' versions in the saver's form."""
        return {channel: self.written(channel, number) for channel, number in versions.items()}

    def has(self, channel: str, number: int) -> bool:
        """Whether the parent has this version of the channel."""
        return (channel, number) in self._known
