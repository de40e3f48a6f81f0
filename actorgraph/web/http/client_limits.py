"""The limits of one client: its rate and its open streams, and how much of them each has used.

A client is a principal, or an address if it is not authenticated.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, cast

import anyio
from starlette.requests import Request

from actorgraph.web.http.problems import TooMany, TooMuch
from actorgraph.web.http.request_limits import ClientSlots, Limits, Rates, retry_after

SOON = {"Retry-After": "5"}
"""Headers of a refusal whose end can't be foreseen."""

_PLACE = "actorgraph.place"
"""The key of a scope for the client whose slot its stream has taken."""


class ClientLimits:
    """Counts the requests and streams of clients, and refuses those above a limit.

    Args:
        limits: of requests.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rates = Rates(limits)
        self.streams = ClientSlots(limits.streams_per_client)

    def check_rate(self, client: tuple[str, str]) -> None:
        """Count a request, or a message of a socket, against its sender's rate.

        Args:
            client: as `client_of` returned it.
        Raises:
            TooMany: the rate is exceeded.
        """
        wait_s = self._rates.wait_s(client, anyio.current_time())
        if wait_s:
            raise TooMany(
                "Rate limit exceeded",
                limit="requests_per_s",
                headers={"Retry-After": retry_after(wait_s)},
            )

    def check_weight(self, request: Request, principal: Any, weight: int) -> None:
        """Count a body's items against its sender's rate; the request itself is counted.

        Args:
            weight: the body's items.
        Raises:
            TooMuch: they are more than one body may ask for.
            TooMany: the rate is exceeded.
        """
        most, burst = self._limits.items, self._limits.burst
        if weight > most:
            raise TooMuch(
                f"the body asks for {weight} items (runs, updates, targets or ids), "
                f"and one request may ask for {most}: send several",
                limit="items",
            )
        if weight <= 1:
            return
        client = client_of(request, principal)
        wait_s = self._rates.wait_s(client, anyio.current_time(), weight - 1)
        if wait_s:
            raise TooMany(
                f"Rate limit exceeded: the body counts as {weight} requests, and {burst} may come "
                "at once",
                limit="requests_per_s",
                headers={"Retry-After": retry_after(wait_s)},
            )

    def take_place(self, request: Request, client: tuple[str, str]) -> None:
        """Take one of the client's slots for a request that stays open, once.

        Args:
            client: as `client_of` returned it.
        Raises:
            TooMany: the client has too many open streams.
        """
        if _PLACE in request.scope:
            return
        if not self.streams.try_acquire(client):
            most = self._limits.streams_per_client
            text = f"Too many open streams: a client may have {most}"
            raise TooMany(text, limit="streams_per_client", headers=SOON)
        request.scope[_PLACE] = client

    def leave_place(self, scope: MutableMapping[str, Any]) -> None:
        """Give back the client's slot of a request, if it has taken one."""
        client = scope.pop(_PLACE, None)
        if client is not None:
            self.streams.release(client)


def client_of(request: Request, principal: Any = None) -> tuple[str, str]:
    """Return the key of a client's limits: its principal, or its address if it has none."""
    if principal is not None and (named := _named(principal)) is not None:
        return named
    address = request.client.host if request.client else ""
    return ("address", address)


def _named(principal: Any) -> tuple[str, str] | None:
    """Return the key of a principal's limits; None if its text differs from request to request."""
    known = principal
    if isinstance(principal, Mapping):  # its other entries may be of the request
        said = cast("Mapping[str, Any]", principal)
        known = said.get("identity", said.get("sub", said))
    known = getattr(known, "identity", known)
    if known is None:
        return None
    if type(known).__str__ is object.__str__ and type(known).__repr__ is object.__repr__:
        return None
    return ("principal", str(known))
