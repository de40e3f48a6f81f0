"""Versions of channels in the type that a saver counts with: text, floats or integers."""

from collections.abc import Callable, Mapping
from typing import Any

from actorgraph.errors import SerializationError
from actorgraph.savers.foreign.forms import convert_to_langgraph

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
