"""StoragePatience: requests don't wait as long for an absent database as runs do.

Receives   what a short request does before it writes: it reads, so it may be given up at any time
Sends      `StorageError` to each request that has waited for `AWAY_S`, if a saver or store says
           that its server has been away for so long. Slow answers of a server are waited for
Bounds     at most one look at the requests within `LOOK_S`, and none while no request waits
Ends       a read that was given up ends with the saver's or store's own limits, or with the system
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import anyio

from actorgraph.errors import StorageError, SystemClosedError
from actorgraph.internals import NO_THREAD, living_host
from actorgraph.systems import ActorSystem
from actorgraph.web.registries.thread_registry import NAMESPACE

AWAY_S = 3.0
"""Seconds that a request waits for a database that is away. A failover often takes less."""
LOOK_S = 0.1

T = TypeVar("T")


class _Reading(Generic[T]):
    """A read in a task of its own, which may outlive the request.

    Attributes:
        error: of the read, or why it was given up.
        done: set when there is a result or an error.
    """

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self.since = anyio.current_time()
        self.done = anyio.Event()
        self.scope = anyio.CancelScope()
        self.error: Exception | None = SystemClosedError(
            "the system was closed before it had answered", do="ask again when it is open"
        )
        self.result: T

    async def carry_out(self) -> None:
        """Work; the outcome is in the attributes then."""
        try:
            with self.scope:
                self.result = await self._work()
                self.error = None
        except Exception as error:  # noqa: BLE001 - the request raises it
            self.error = error
        finally:
            self.done.set()

    def give_up(self) -> None:
        """Let the request end with an error."""
        self.error = StorageError(
            f"the database has been away for {AWAY_S:g} s",
            do="check that the server runs and can be reached, then ask again; nothing was changed",
        )
        self.done.set()


class StoragePatience:
    """The reads of a server's short requests; described at the top of this file.

    Args:
        store: the server's.
    """

    def __init__(self, system: ActorSystem, store: Any) -> None:
        self._system = system
        self._store = store
        self._readings: set[_Reading[Any]] = set()
        self._looks = False

    async def wait_for(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return what a function returns that changes nothing.

        Raises:
            StorageError: the database is away; the function may still wait for it.
        """
        if not (_can_be_away(self._system.saver) or _can_be_away(self._store)):
            return await read()
        reading = _Reading(read)
        # A task of its own: a group of a store's operations is waited for, even when cancelled.
        self._system.spawn(reading.carry_out)
        self._readings.add(reading)
        if not self._looks:
            self._system.spawn(self._look)
            self._looks = True
        try:
            await reading.done.wait()
        finally:
            self._readings.discard(reading)
            reading.scope.cancel()
        if reading.error is not None:
            raise reading.error
        return reading.result

    async def ask(self) -> None:
        """Ask the saver and the store whether they answer, if they can be away.

        Raises: any error of theirs.
        """
        host = living_host(self._system.saver)
        if host is not None and _can_be_away(self._system.saver):
            await host.reader.ping()
        if _can_be_away(self._store):
            await self._store.aget(NAMESPACE, NO_THREAD)

    async def _look(self) -> None:
        try:
            while self._readings:
                await anyio.sleep(LOOK_S)
                longest = max(_away_s(self._system.saver), _away_s(self._store))
                if longest < AWAY_S:
                    continue
                for reading in tuple(self._readings):
                    if anyio.current_time() - reading.since >= AWAY_S:
                        reading.give_up()
        finally:
            self._looks = False


def _can_be_away(one: Any) -> bool:
    return hasattr(one, "away_s")


def _away_s(one: Any) -> float:
    return getattr(one, "away_s", 0.0)
