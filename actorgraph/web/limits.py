"""How much a request may ask for: bytes, depth, rate, streams. Plain bookkeeping over numbers.

Each limit has an answer of its own: 413 for a body, 408 for one that dribbles, 422 for its depth,
429 with `Retry-After` for a rate or for streams.
"""

import math
from collections import OrderedDict
from typing import Any, cast

from msgspec import Struct

from actorgraph.api.runs import check_reading
from actorgraph.errors import InvalidConfigError
from actorgraph.values.streams import WhenFull


class Limits(Struct, frozen=True):
    """What one client may ask for.

    Attributes:
        body_bytes: of a request's body; default 4 MiB. body_s: seconds in which all of it has to
            arrive; default 30. For the headers it is the server's setting that counts.
        depth: levels of lists and objects in a body; default 64.
        values: values in a body; default 100,000.
        requests_per_s: of one principal, or of one address where nobody is known; None (default)
            for no limit. burst: how many may come at once; default 20.
        streams: event streams and waits for runs open at once, of all clients; default 1,000.
        stream_s: seconds after which an event stream ends, and its client comes back with
            `Last-Event-ID`; None (default) for as long as it goes on.
        buffer, when_full: what becomes of a stream whose client is so many events behind:
            "drop_oldest" (default) may tell it of a gap, "block" lets the run wait, "close" ends
            the stream, and the client comes back. Default 256.
        clients: how many clients' rates are remembered; default 10,000.
    """

    body_bytes: int = 4 * 1024 * 1024
    body_s: float = 30.0
    depth: int = 64
    values: int = 100_000
    requests_per_s: float | None = None
    burst: int = 20
    streams: int = 1_000
    stream_s: float | None = None
    buffer: int = 256
    when_full: WhenFull = "drop_oldest"
    clients: int = 10_000

    def __post_init__(self) -> None:
        """Refuse what can't be.

        Raises:
            InvalidConfigError: a number is out of range.
        """
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name in _UNBOUNDED:
                continue
            if name != "when_full" and not (isinstance(value, int | float) and value > 0):
                raise InvalidConfigError(
                    f"Limits: {name}={value!r}",
                    do=f"use a number above 0{', or None' if name in _UNBOUNDED else ''}",
                )
        check_reading(0, self.buffer, self.when_full)


_UNBOUNDED = ("requests_per_s", "stream_s")


class Rates:
    """A token bucket per client; the one that was silent longest is forgotten first."""

    def __init__(self, limits: Limits) -> None:
        self._rate = limits.requests_per_s
        self._burst = float(limits.burst)
        self._most = limits.clients
        self._buckets: OrderedDict[Any, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: Any, now: float) -> float:
        """Take a token; returns 0, or the seconds until there is one.

        Args:
            now: seconds of a clock that only goes forward.
        """
        if self._rate is None:
            return 0.0
        tokens, before = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - before) * self._rate)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - allowed, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._rate


def retry_after(seconds: float) -> str:
    """A `Retry-After` header's value: whole seconds, at least 1."""
    return str(max(1, math.ceil(seconds)))


def exceeds(value: Any, limits: Limits) -> str | None:
    """What is too much about a decoded body; None if nothing is."""
    left = limits.values
    level: list[Any] = [value]
    for _ in range(limits.depth + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(cast("dict[str, Any]", one).values())
            elif isinstance(one, list):
                inner.extend(cast("list[Any]", one))
        left -= len(inner)
        if left < 0:
            return f"the body has more than {limits.values} values"
        if not inner:
            return None
        level = inner
    return f"the body is nested more than {limits.depth} levels deep"
