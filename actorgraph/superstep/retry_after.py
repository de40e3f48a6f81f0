"""The wait that a server asks for with an error: its headers `Retry-After` and `retry-after-ms`."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from actorgraph.values.http_errors import headers_of

RETRY_AFTER_MAX_S = 3600.0
"""A server that asks for a longer wait is not listened to: no node sleeps for hours."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def retry_after(error: BaseException, now: float) -> float | None:
    """Compute the seconds that the server of an error asks to wait.

    Args:
        error: of an HTTP client; of a group the longest wait counts.
        now: seconds since 1970, for a date if the response has none of its own.
    Returns: None if it asks for nothing, for a wait in the past, or for more than an hour.
    """
    if isinstance(error, BaseExceptionGroup):
        inner = (retry_after(each, now) for each in error.exceptions)
        return max((wait for wait in inner if wait is not None), default=None)
    headers = headers_of(error)
    # Clients that know the finer one prefer it.
    wait = _number(headers.get("retry-after-ms"), 0.001)
    return _wait(headers, now) if wait is None else wait


def _wait(headers: dict[str, str], now: float) -> float | None:
    given = headers.get("retry-after")
    wait = _number(given, 1.0)
    if wait is not None or given is None:
        return wait
    until = _date(given)
    if until is None:
        return None
    # The server's own time, if it says it: its clock may be another than this machine's.
    asked = _date(headers.get("date"))
    return _sane(until - (now if asked is None else asked))


def _number(text: str | None, unit: float) -> float | None:
    if text is None or not _NUMBER.fullmatch(text.strip()):
        return None
    return _sane(float(text) * unit)


def _date(text: str | None) -> float | None:
    """Read an HTTP date, as seconds since 1970."""
    try:
        made = parsedate_to_datetime(text or "")
        return (made if made.tzinfo else made.replace(tzinfo=UTC)).timestamp()
    except Exception:  # noqa: BLE001 - a server's nonsense must not hide the error it came with
        return None


def _sane(wait: float) -> float | None:
    return wait if 0 <= wait <= RETRY_AFTER_MAX_S else None
