"""Jobs of servers while their system's lifespan runs: crons, webhooks, old threads.

Each job looks at the time and at the stored items, acts, and returns when it wants to look again.
"""

from datetime import UTC, datetime
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

import anyio

from actorgraph.errors import SystemClosedError
from actorgraph.internals import log_event as event
from actorgraph.systems import ActorSystem

LOOK_S = 5.0
"""The most seconds between two looks; other processes may have stored something meanwhile."""


class BackgroundJob(Protocol):
    """Work that a server does by itself."""

    async def look(self, now: datetime) -> float:
        """Do the work that is due; returns the seconds until the next look, at most."""
        ...


class Bell:
    """Wakes the loop of `look_forever` before its time."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def ring(self) -> None:
        """Look again now."""
        if self._event is not None:
            self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until it rings, or for some seconds."""
        self._event = anyio.Event()
        with anyio.move_on_after(seconds):
            await self._event.wait()
        self._event = None


async def look_forever(system: ActorSystem) -> None:
    """Let the jobs of all servers of a system look, until cancelled or the system closes."""
    bell = bell_of(system)
    while True:
        pause_s = LOOK_S
        for job in list(_JOBS.get(system, ())):
            try:
                pause_s = min(pause_s, await job.look(datetime.now(UTC)))
            except SystemClosedError:
                return
            except Exception as error:  # noqa: BLE001 - the store may be available the next time
                event("warning", "web.job_failed", job=type(job).__name__, error=repr(error))
        await bell.wait(max(pause_s, 0.01))


def bell_of(system: ActorSystem) -> Bell:
    """Return the bell of a system's jobs."""
    return _BELLS.setdefault(system, Bell())


def add_job(system: ActorSystem, job: BackgroundJob) -> None:
    """Let a job look while the system's lifespan runs; the caller keeps the job alive."""
    _JOBS.setdefault(system, WeakSet()).add(job)


_JOBS: WeakKeyDictionary[ActorSystem, WeakSet[BackgroundJob]] = WeakKeyDictionary()
_BELLS: WeakKeyDictionary[ActorSystem, Bell] = WeakKeyDictionary()
