"""Values and versions for savers with LangGraph's interface.

Classes    Send, Interrupt and Overwrite become LangGraph's, anywhere in dicts, lists and tuples, so
           that LangGraph's serializers and tools can read them. They are imported for the first one
           that a saver of LangGraph's gets; where LangGraph isn't installed they stay ours
Payloads   such a saver encodes values itself: here a payload is an empty one that carries a copy
           of its value, so that later changes by a node don't change the saved one
Versions   ours are integers; a saver may count with text or floats. LangGraph's text is the number,
           a dot and a random part, so a version that the parent has keeps its text
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from operator import is_not
from typing import Any, cast

from actorgraph.bridging import BRIDGE
from actorgraph.codec import Codec
from actorgraph.codec.encryption import NOWHERE, Place
from actorgraph.errors import SerializationError
from actorgraph.values.alarms import Timing
from actorgraph.values.commands import Interrupt, Overwrite, Send
from actorgraph.values.constants import INTERRUPT, TASKS
from actorgraph.values.policies import TimeoutPolicy

_CLASSES = (Send, Interrupt, Overwrite)


def convert_to_langgraph(value: Any) -> Any:
    """Convert objects of ours in a value to LangGraph's classes; the value isn't changed."""
    return _mapped(value, _shown)


def convert_from_langgraph(value: Any, channel: str = "") -> Any:
    """Convert objects of LangGraph's in a value to our classes; the value isn't changed.

    Args:
        channel: where it was. A serializer that lets in no class which it doesn't know, as
            LangGraph's strict one, leaves the fields of questions and Sends that were stored under
            our names; they are known by their channels.
    """
    if channel == INTERRUPT:
        value = _each(value, _as_interrupt)
    elif channel == TASKS:
        value = _each(value, _as_send)
    return _mapped(value, _ours)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change the items of plain containers; those in which nothing changes stay the same."""
    kind = type(value)
    if kind is dict:
        mapping = cast("dict[Any, Any]", value)
        parts = [_mapped(item, change) for item in mapping.values()]
        same = not any(map(is_not, parts, mapping.values()))
        return mapping if same else dict(zip(mapping, parts, strict=True))
    if kind is list or kind is tuple:
        items = cast("list[Any]", value)
        parts = [_mapped(item, change) for item in items]
        return items if not any(map(is_not, parts, items)) else kind(parts)
    return change(value)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change a value, or the items of a list that is none itself."""
    changed = change(value)
    if changed is value and type(value) is list:
        return [change(item) for item in cast("list[Any]", value)]
    return changed


def _as_interrupt(item: Any) -> Any:
    """Make a question of its fields; anything else is returned as it is."""
    if type(item) is not dict:
        return item
    fields = dict(cast("dict[str, Any]", item))
    if not {"value", "id"} <= fields.keys() <= {"value", "id", "response_schema", "timing"}:
        return cast("Any", item)
    times = fields.get("timing")
    if isinstance(times, dict):
        parts = cast("dict[str, Any]", times).items()
        named: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in parts}
        fields["timing"] = Timing(**named)
    return Interrupt(**fields)


def _as_send(item: Any) -> Any:
    """Make a Send of its arguments; anything else is returned as it is."""
    if type(item) is not list or len(item) not in (2, 3) or type(item[0]) is not str:
        return item
    node, arg, *limit = cast("list[Any]", item)
    return Send(node, arg, TimeoutPolicy(**limit[0]) if limit and limit[0] else None)


def _shown(item: Any) -> Any:
    if type(item) not in _CLASSES:
        return item
    return BRIDGE.export(item, convert_to_langgraph)


def _ours(item: Any) -> Any:
    kind = type(item)
    if not kind.__module__.startswith(BRIDGE.class_modules):
        return item
    if kind.__name__ == "_DeltaSnapshot":
        return convert_from_langgraph(item.value)
    adapted = BRIDGE.adapt(item)
    if type(adapted) is Send:
        return Send(adapted.node, convert_from_langgraph(adapted.arg), adapted.timeout)
    if type(adapted) is Interrupt or type(adapted) is Overwrite:
        return replace(adapted, value=convert_from_langgraph(adapted.value))
    return adapted


class LivePayload(bytes):
    """An empty payload that carries a value."""

    value: Any

    def __radd__(self, head: bytes) -> "LivePayload":
        """Return itself: the codec's frame is put around bytes, and here are none."""
        return self


def live_payload(value: Any) -> LivePayload:
    """Make a payload that carries a value; the caller must not change the value any more."""
    payload = LivePayload(b"")
    payload.value = value
    return payload


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
