"""Errors of HTTP clients: their text, and the status and headers of the response they report.

They are read by their attributes, so no client is imported: `httpx.HTTPStatusError` and
`requests.HTTPError` have a `response`, as have the errors of the clients of OpenAI and Anthropic;
others, such as aiohttp's and urllib's, have the status and the headers themselves.
"""

from collections.abc import Iterable
from typing import Any

from actorgraph.errors.texts import error_text

_STATUS_NAMES = ("status_code", "status", "code")


def status_of(error: BaseException) -> int | None:
    """Read the HTTP status of an error; None if it isn't one of a response."""
    for place in _places(error):
        for name in _STATUS_NAMES:
            value = _read(place, name)
            if isinstance(value, int) and not isinstance(value, bool):
                return int(value)
    return None


def headers_of(error: BaseException) -> dict[str, str]:
    """Read the response headers of an error, their names in lower case; {} if it has none."""
    for place in _places(error):
        if found := _as_dict(_read(place, "headers")):
            return found
    return {}


def connection_text(error: BaseException) -> str:
    """
    Return an error's class and text; without a text, those of the error behind it.

    An error of a connection has no text on trio, whichever certificate or address is wrong.
    """
    behind: BaseException | None = error
    seen = list[BaseException]()
    while behind is not None and behind not in seen:
        if text := error_text(behind):
            cause = "" if behind is error else f"{type(behind).__name__}: "
            return f"{type(error).__name__}: {cause}{text}"
        seen.append(behind)
        behind = behind.__cause__ or behind.__context__
    return type(error).__name__


def _as_dict(headers: Any) -> dict[str, str]:
    try:
        return {str(name).lower(): str(value) for name, value in headers.items()}
    except Exception:  # noqa: BLE001 - any object of a client
        return {}


def _places(error: BaseException) -> Iterable[Any]:
    """The response first: an error's own attributes may mean something else."""
    response = _read(error, "response")
    return (error,) if response is None else (response, error)


def _read(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - a property of a client may raise anything
        return None
