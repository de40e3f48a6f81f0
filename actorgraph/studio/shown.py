"""Values as pages show them: as text, cut to a length; moments; addresses. Pure."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from actorgraph.web.http.jsonable import dumps

TEXT_MAX = 4_000
"""Characters of a value on a page."""

PREVIEW_MAX = 120
"""Characters of a value in a list."""


class Shown(msgspec.Struct, frozen=True):
    """A value as text.

    Attributes:
        cut: how many characters are left out.
    """

    text: str
    cut: int = 0


class Moment(msgspec.Struct, frozen=True):
    """A moment: for machines, and for the eye."""

    iso: str
    text: str


def plain(value: Any) -> Any:
    """Return a value as JSON data, as the REST routes send it."""
    return msgspec.json.decode(dumps(value))


def shown(value: Any, most: int = TEXT_MAX) -> Shown:
    """Show a value: text as it is, everything else as indented JSON."""
    return shown_plain(plain(value), most)


def shown_plain(data: Any, most: int = TEXT_MAX) -> Shown:
    """Show JSON data, such as `plain` returns."""
    text = data if isinstance(data, str) else _indented(data)
    return Shown(text[:most], max(0, len(text) - most))


def whole(value: Any) -> str:
    """Return a value as indented JSON, for a field to edit it."""
    return _indented(plain(value))


def _indented(data: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def moment(at: datetime | str | int | None) -> Moment | None:
    """Show a moment.

    Args:
        at: a datetime, ISO 8601 text, or microseconds since 1970-01-01 UTC.
    """
    if at is None or at == "":
        return None
    if isinstance(at, int):
        found = datetime.fromtimestamp(at / 1e6, tz=UTC)
    else:
        found = datetime.fromisoformat(at) if isinstance(at, str) else at
    found = found.astimezone(UTC)
    return Moment(found.isoformat(), found.strftime("%Y-%m-%d %H:%M:%S"))


def ago(at: datetime | str | int | None, now: datetime) -> Moment | None:
    """Show a moment by its age: "3 minutes ago", "in 2 hours"."""
    found = moment(at)
    if found is None:
        return None
    seconds = (now - datetime.fromisoformat(found.iso)).total_seconds()
    if abs(seconds) < 1:
        return Moment(found.iso, "now")
    age = age_of(abs(seconds))
    return Moment(found.iso, f"{age} ago" if seconds > 0 else f"in {age}")


def age_of(seconds: float) -> str:
    """Return a length of time in words, in its largest whole unit: "1 minute", "3 days"."""
    name, size = next((one for one in _AGES if seconds >= one[1]), ("second", 1))
    count = int(seconds // size)
    return f"{count} {name}{'' if count == 1 else 's'}"


_AGES = (
    ("year", 31_536_000),
    ("month", 2_592_000),
    ("day", 86_400),
    ("hour", 3600),
    ("minute", 60),
)


def preview(value: Any, most: int = PREVIEW_MAX) -> str:
    """Show a value in one line, cut to a length."""
    data = plain(value)
    if isinstance(data, dict):
        texts = [data[key] for key in _SPOKEN if isinstance(data.get(key), str) and data[key]]
        data = texts[0] if texts else _reviewed(data) or data
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _reviewed(data: dict[str, Any]) -> str:
    """Return the tool call that a question asks to decide on; "" if it asks about none."""
    asked = data.get("action_requests")
    first = asked[0] if isinstance(asked, list) and asked else None
    if not isinstance(first, dict):
        return ""
    words = (first.get("name"), first.get("description"))
    return ": ".join(word for word in words if isinstance(word, str) and word)


_SPOKEN = ("question", "message", "content", "text", "prompt", "title", "description")
"""Keys of a question or message under which people write what it says."""


def part(text: str) -> str:
    """Quote text as one part of a path; slashes too."""
    return quote(text, safe="")
