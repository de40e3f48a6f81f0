"""Watches over what stays open: they ask again whether its client may go on, at an interval."""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from actorgraph.internals import log_event as event
from actorgraph.web.http.problems import AccessRevoked

Reauthorize = Callable[[], Awaitable[object]]
"""Raises `AccessRevoked` if the request may not go on."""

FAREWELL_S = 5.0
"""Seconds for the last part of a response whose access was taken away."""


class AccessWatch:
    """Asks again whether a response may go on, and ends it if it may not.

    Attributes:
        scope: cancelled when access was taken away.
    """

    def __init__(self, reauthorize: Reauthorize | None, every_s: float) -> None:
        self._reauthorize = reauthorize
        self._every_s = every_s
        self._revoked: AccessRevoked | None = None
        self.scope = anyio.CancelScope()

    def begin(self, group: TaskGroup) -> None:
        """Watch in a task of its own, if there is somebody to ask."""
        if self._reauthorize is not None:
            group.start_soon(self)

    async def __call__(self) -> None:
        """Ask until it is cancelled, or access was taken away."""
        while self._reauthorize is not None:
            await anyio.sleep(self._every_s)
            try:
                await self._reauthorize()
            except AccessRevoked as revoked:
                self.end(revoked)
            except Exception as error:  # noqa: BLE001 - rules that fail allow nothing
                event("error", "web.reauthorization_failed", error=repr(error))
                self.end(AccessRevoked(500, "Internal server error"))
            else:
                continue
            return

    def end(self, revoked: AccessRevoked) -> None:
        """End the watched request, which was refused at another place."""
        self._revoked = revoked
        self.scope.cancel()

    def check(self) -> None:
        """Raise `AccessRevoked` if access was taken away."""
        if self._revoked is not None:
            raise self._revoked
