"""Limits of requests: size, time and depth of bodies, rates, open streams. Counting only, no I/O.

A body above a limit is answered with 413 (size), 408 (time) or 422 (depth, number of values, what
it asks for); a rate or too many open streams, crons or webhooks of a client with
429 and `Retry-After`.
"""

import math
from collections import OrderedDict
from typing import Any, cast

import msgspec
from msgspec import Struct

from actorgraph.errors import InvalidConfigError
from actorgraph.internals import BUFFER_BYTES, DURATION_MAX_S, WhenFull, check_reading
from actorgraph.web.http.problems import TooLarge, TooMuch


class Limits(Struct, frozen=True):
    """Limits of requests, streams and rates.

    Attributes:
        body_bytes: bytes of a request's body; default 4 MiB.
        body_s: seconds within which the whole body must arrive; default 30. Headers are bounded by
            the server's own setting.
        depth: levels of lists and objects in a body; default 64.
        values: values in a body; default 20,000.
        items: what one body may ask for (`weight_of`): runs of a batch, updates of supersteps,
            targets of a `goto`, threads or runs by their ids; default 1,000.
        requests_per_s: rate of one client, that is of one principal, or of one address if
            unauthenticated; None (default) for no limit. A request counts as the items that its
            body asks for.
        burst: requests that may come at once; default 20.
        streams: open event streams and waits for runs, of all clients; default 1,000.
        streams_per_client: those of one client; default 250, None for no limit.
        crons_per_client: crons that one client may have; default 1,000, None for no limit. Clients
            that are not authenticated count as one.
        webhooks_per_client: webhooks of one client's runs that are not sent yet; default 1,000,
            None for no limit. Clients that are not authenticated count as one.
        stream_s: seconds after which an event stream ends, and its client reconnects with
            `Last-Event-ID`; None (default) for no limit.
        buffer: events by which a stream's client may be behind; default 256.
        buffer_bytes: approximate bytes by which it may; default 16 MB.
        when_full: what happens to a client that is further behind: "drop_oldest" (default) drops
            events and sends `gap`, "block" makes the run wait, "close" ends the stream, and the
            client reconnects.
        clients: number of clients whose rates are tracked; default 10,000.
    """

    body_bytes: int = 4 * 1024 * 1024
    body_s: float = 30.0
    depth: int = 64
    values: int = 20_000
    items: int = 1_000
    requests_per_s: float | None = None
    burst: int = 20
    streams: int = 1_000
    streams_per_client: int | None = 250
    crons_per_client: int | None = 1_000
    webhooks_per_client: int | None = 1_000
    stream_s: float | None = None
    buffer: int = 256
    buffer_bytes: int = BUFFER_BYTES
    when_full: WhenFull = "drop_oldest"
    clients: int = 10_000

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InvalidConfigError: a number is out of range.
        """
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None and name in _UNBOUNDED:
                continue
            if name != "when_full" and not (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and 0 < value <= DURATION_MAX_S * 1e6
            ):
                or_none = " or None" if name in _UNBOUNDED else ""
                raise InvalidConfigError(
                    f"Limits: {name} must be > 0{or_none}, got {value!r}",
                    do=f"use a finite number above 0{or_none}",
                )
        check_reading(0, self.buffer, self.when_full, self.buffer_bytes)


_UNBOUNDED = (
    *("requests_per_s", "stream_s"),
    *("streams_per_client", "crons_per_client", "webhooks_per_client"),
)


class Rates:
    """A token bucket per client. The least recently active client is dropped first."""

    def __init__(self, limits: Limits) -> None:
        self._rate = limits.requests_per_s
        self._burst = float(limits.burst)
        self._most = limits.clients
        self._buckets: OrderedDict[Any, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: Any, now: float, weight: int = 1) -> float:
        """Take tokens; returns 0, or the seconds until there are so many.

        More than the burst are never there: then it returns the seconds until the burst is.

        Args:
            now: seconds of a monotonic clock.
            weight: tokens to take, all or none.
        """
        if self._rate is None:
            return 0.0
        tokens, before = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - before) * self._rate)
        allowed = tokens >= weight
        self._buckets[client] = (tokens - weight if allowed else tokens, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        if allowed:
            return 0.0
        missing = min(weight, self._burst) - tokens
        return max(missing, 1.0) / self._rate if weight > self._burst else missing / self._rate


def retry_after(seconds: float) -> str:
    """Return the value of a `Retry-After` header: whole seconds, at least 1."""
    return str(max(1, math.ceil(seconds)))


def check_values(value: Any, limits: Limits, what: str = "the body") -> None:
    """Check depth and number of values of a decoded body. Iterates level by level.

    Args:
        what: subject of the error's sentence.
    Raises:
        TooMuch: a limit is exceeded.
    """
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
            raise TooMuch(f"{what} has more than {limits.values} values", limit="values")
        if not inner:
            return
        level = inner
    raise TooMuch(f"{what} is nested more than {limits.depth} levels deep", limit="depth")


def check_merged(merged: Any, before: Any, limits: Limits, what: str) -> None:
    """Check what a change would store: no more than one body may have, as bodies are merged.

    One that was larger already may be changed, if it doesn't grow.

    Args:
        merged: plain data, as it will be stored.
        before: as it is stored.
        what: subject of the error's sentence.
    Raises:
        TooLarge: it would have more bytes than a body may have.
        TooMuch: it would have too many values.
    """
    size = len(msgspec.json.encode(merged))
    if size <= limits.body_bytes:
        small = size <= limits.values  # bytes: it can't have so many values
        grows = not small and size > len(msgspec.json.encode(before))
        if grows:
            check_values(merged, limits, f"{what} would be too large: it")
    elif size > len(msgspec.json.encode(before)):
        text = f"{what} would have {size} bytes, and may have {limits.body_bytes}: make it smaller"
        raise TooLarge(text, limit="body_bytes")


class StreamSlots:
    """Counts open streams up to a limit.

    Args:
        most: the limit; None for no limit.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.taken = 0

    def try_acquire(self) -> bool:
        """Take a slot; returns False if none is free."""
        if self._most is not None and self.taken >= self._most:
            return False
        self.taken += 1
        return True

    def release(self) -> None:
        """Give a slot back."""
        self.taken -= 1


class ClientSlots:
    """Counts the open streams of each client up to a limit.

    Args:
        most: the limit of one client; None for no limit.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.taken: dict[Any, int] = {}

    def try_acquire(self, client: Any) -> bool:
        """Take a slot of a client; returns False if it has none left."""
        taken = self.taken.get(client, 0)
        if self._most is not None and taken >= self._most:
            return False
        self.taken[client] = taken + 1
        return True

    def release(self, client: Any) -> None:
        """Give a slot of a client back."""
        left = self.taken.pop(client) - 1
        if left:
            self.taken[client] = left
