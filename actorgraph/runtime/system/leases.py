"""LeaseActor: keeps a system's lease, and stops its runs when it could not.

Sends      one renewal per third of the lease, however many runs there are: see `Heartbeat`
Guards     a lease counts from the moment at which its renewal was handed over, by this process's
           clock; the store counts from the later moment at which it has stored it. So this side
           knows first that it is over, also after a pause of the whole process
"""

import threading
import time
from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread

from actorgraph.runtime.hosting import Host
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.persistence import Receipts
from actorgraph.values.commits import CommitOutcome, Refused
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import RenewOwner

CHECKS = 6
"""Looks at the lease, per lease."""
BEATS = 3
"""Renewals per lease."""
SILENT_LEASES = 4
"""A loop that has not looked at its lease for so many leases hangs: others may take its runs."""

RenewBeside = Callable[[Sequence[RenewOwner]], list[CommitOutcome]]


class Heartbeat:
    """Renews a lease from a thread of its own.

    A loop with thousands of runs takes seconds to come round, and thousands of saves wait for as
    long; neither says that the process is dead. The renewal goes over a connection of its own
    where the saver has one (`renew_beside`), else before the saves that wait.

    Args:
        owner: whose lease it is; may be set anew.

    Attributes:
        held_from: when the newest renewal of `owner` that is stored was handed over.
        seen: when the loop has looked at the lease last.
    """

    def __init__(self, host: Host, owner: bytes, lease_s: float) -> None:
        self._host = host
        self._lease_s = lease_s
        self._beside: RenewBeside | None = getattr(host.saver, "renew_beside", None)
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._owner = owner
        self.held_from = self.seen = time.monotonic()

    def start(self, held_from: float) -> None:
        """Start the thread, for a lease that was taken lately."""
        self.held_from = held_from
        self._thread = threading.Thread(target=self._serve, name="actorgraph-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for its last renewal: none is stored after that."""
        self._stopped = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def go_on_as(self, owner: bytes) -> None:
        """Renew the lease of another owner, at once."""
        with self._lock:
            self._owner, self.held_from = owner, time.monotonic()
        self._due.set()

    def _serve(self) -> None:
        while True:
            self._due.wait(self._lease_s / BEATS)
            self._due.clear()
            if self._stopped:
                return
            self._renew()

    def _renew(self) -> None:
        """Renew the lease, unless it is over: others may have the runs then, and the loop says so.

        A process that stood still wakes up here before its loop has looked at the clock.
        """
        with self._lock:
            moment, owner = time.monotonic(), self._owner
            over = moment - self.held_from > self._lease_s
        if over or moment - self.seen > SILENT_LEASES * self._lease_s:
            return
        renewal = RenewOwner(owner, self._lease_s)
        if self._beside is None:
            self._host.writer.post(
                renewal, Receipts(lambda answer: self._hear(answer, moment, owner))
            )
            return
        try:
            (outcome,) = self._beside([renewal])
        except Exception as error:  # noqa: BLE001 - a saver may be anybody's
            outcome = Refused(error)
        refused = isinstance(outcome, Refused)
        self._hear(SaveFailed(0, outcome.error) if refused else Saved(0), moment, owner)

    def _hear(self, answer: Saved | SaveFailed, moment: float, owner: bytes) -> None:
        if isinstance(answer, SaveFailed):
            log_event("warning", "lease.not_renewed", error=repr(answer.error))
            return
        with self._lock:
            if owner == self._owner and moment - self.held_from <= self._lease_s:
                self.held_from = max(self.held_from, moment)


class LeaseActor:
    """See the module's text.

    Args:
        lost: called when the lease is over; returns the owner to go on as.
    """

    def __init__(self, host: Host, owner: bytes, lease_s: float, lost: Callable[[], bytes]) -> None:
        self._host = host
        self._owner = owner
        self._lease_s = lease_s
        self._lost = lost
        self._heartbeat = Heartbeat(host, owner, lease_s)
        self._held_from = 0.0

    async def take(self) -> None:
        """Take the lease.

        Raises:
            StorageError: it can't be stored.
        """
        moment = time.monotonic()
        await self._host.writer.store(RenewOwner(self._owner, self._lease_s))
        self._held_from = moment

    async def serve(self) -> None:
        """Renew until cancelled."""
        heartbeat = self._heartbeat
        heartbeat.start(self._held_from)
        try:
            while True:
                heartbeat.seen = time.monotonic()
                await anyio.sleep(self._lease_s / CHECKS)
                if time.monotonic() - heartbeat.held_from > self._lease_s:
                    self._give_up()
        finally:
            # A limiter of its own: this must not wait for the program's threads, however they hang.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(heartbeat.stop, limiter=anyio.CapacityLimiter(1))

    def _give_up(self) -> None:
        log_event("error", "lease.lost", lease_s=self._lease_s)
        self._owner = self._lost()
        self._heartbeat.go_on_as(self._owner)
