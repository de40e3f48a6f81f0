"""Versions of channels in the type that a saver counts with: text, floats or integers.

Ours are integers. LangGraph's text has the number in front of a dot and a random part behind,
so a version that stood in the parent keeps its text.
"""

from collections.abc import Callable, Mapping
from typing import Any

from actorgraph.errors import SerializationError
from actorgraph.savers.foreign.forms import outgoing

Seen = Mapping[str, Mapping[str, Any]]


def number_of(version: Any) -> int:
    """The number of a version.

    Raises:
        SerializationError: it has none in front.
    """
    if isinstance(version, (int, float)):
        return int(version)
    try:
        return int(str(version).partition(".")[0] or 0)
    except ValueError:
        raise SerializationError(
            f"version {version!r} of a channel doesn't begin with a number",
            do="let the saver's get_next_version() count with numbers, or text that begins so",
        ) from None


def numbers_of(versions: Mapping[str, Any]) -> dict[str, int]:
    """The number of each channel's version."""
    return {channel: number_of(version) for channel, version in versions.items()}


class SaverStyle:
    """How one saver writes versions, and in whose classes it gets values.

    Attributes:
        shown: makes LangGraph's of our Sends and questions; nothing for a saver of ours whose
            class overrides some of its methods.
    """

    def __init__(self, saver: Any) -> None:
        ours = hasattr(saver, "close_blocking")
        self.shown: Callable[[Any], Any] = _same if ours else outgoing
        try:
            first = saver.get_next_version(None, None)
        except Exception:  # noqa: BLE001 - any that can't say gets integers
            first = 1
        self._type = type(first)

    def written(self, number: int) -> Any:
        """A version that has not been stored before."""
        if self._type is str:
            return f"{number:032}.{0:016}"
        return float(number) if self._type is float else number


def _same(value: Any) -> Any:
    return value


class ParentVersions:
    """The versions that the parent has: they stay as they are written there.

    Args:
        versions, seen: the parent's, as the saver has them.
    """

    def __init__(self, style: SaverStyle, versions: Mapping[str, Any], seen: Seen) -> None:
        self._style = style
        self._known: dict[tuple[str, int], Any] = {}
        for channels in (*seen.values(), versions):
            for channel, version in channels.items():
                self._known[channel, number_of(version)] = version

    def written(self, channel: str, number: int) -> Any:
        """A channel's version as the saver has it."""
        known = self._known.get((channel, number))
        return self._style.written(number) if known is None else known

    def all_written(self, versions: Mapping[str, int]) -> dict[str, Any]:
        """The same for several channels."""
        return {channel: self.written(channel, number) for channel, number in versions.items()}

    def has(self, channel: str, number: int) -> bool:
        """Whether the parent has this version of the channel."""
        return (channel, number) in self._known
