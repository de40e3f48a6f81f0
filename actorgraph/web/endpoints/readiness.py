"""Readiness: whether the saver and the store of a server can be used.

Receives   `is_usable()` calls, unauthenticated and as often as they come
Sends      at most one check at a time to the saver and the store, and none within `FRESH_S`
Bounds     a caller waits `PATIENCE_S`; a check that takes longer goes on, and is "not ready"
           meanwhile
Ends       a check ends after `LOOK_S`, or with the system
"""

from math import inf
from typing import Any

import anyio
import anyio.to_thread

from actorgraph.errors import SaverClosedError
from actorgraph.internals import NO_THREAD, living_host
from actorgraph.internals import log_event as event
from actorgraph.systems import ActorSystem
from actorgraph.web.registries.thread_registry import NAMESPACE

FRESH_S = 1.0
"""Seconds for which the result of a check is reused."""
PATIENCE_S = 2.0
"""Seconds that a caller waits for a check."""
LOOK_S = 10.0
"""Seconds after which a check fails."""


class Readiness:
    """Checks the saver and the store; described at the top of this file.

    Args:
        store: where threads are registered.
    """

    def __init__(self, system: ActorSystem, store: Any) -> None:
        self._system = system
        self._store = store
        self._usable = True
        self._looked_at = -inf
        self._look: anyio.Event | None = None

    async def is_usable(self) -> bool:
        """Whether saver and store answered the last check.

        Raises:
            SystemClosedError: the system is not open.
        """
        if self._look is None:
            if anyio.current_time() - self._looked_at < FRESH_S:
                return self._usable
            look = anyio.Event()
            self._system.spawn(self._look_now, look)
            self._look = look
        with anyio.move_on_after(PATIENCE_S):
            await self._look.wait()
            return self._usable
        return False

    async def _look_now(self, done: anyio.Event) -> None:
        usable = False
        try:
            with anyio.fail_after(LOOK_S):
                await _ask(self._system.saver, self._store)
            usable = True
        except Exception as error:  # noqa: BLE001 - any failure means that it can't be used
            if self._usable:  # log the change only, not every check
                event("error", "web.storage_not_usable", error=repr(error))
        finally:
            self._usable, self._looked_at = usable, anyio.current_time()
            self._look = None
            done.set()


async def _ask(saver: Any, store: Any) -> None:
    """Read a missing entry from the saver and from the store; check that both can be written.

    Raises: any error of theirs, if one of them can't be used.
    """
    host = living_host(saver)
    if host is None:
        raise SaverClosedError("the saver is closed", do="open the system again")
    # An open file that was removed can still be read and written: writes would be lost silently.
    # A server that was replaced by another one may still be read, and takes no writes.
    for one in (saver, store):
        check_place = getattr(one, "check_place", None)
        if check_place is not None:
            await anyio.to_thread.run_sync(check_place, abandon_on_cancel=True)
    await host.ping()
    await store.aget(NAMESPACE, NO_THREAD)
