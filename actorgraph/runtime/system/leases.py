"""LeaseActor: keeps a system's lease, and stops the system's runs when the lease is lost.

Sends      one renewal per third of the lease, however many runs there are: see `Heartbeat`
Guards     a lease counts from the moment at which its renewal was handed over, by this process's
           clock; the store counts from the later moment at which it has stored it. So this side
           knows first that it is over, also after a pause of the whole process. While a machine
           sleeps this clock may stand still: then the store refuses the late saves
"""

import threading
import time
from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread

from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.persistence import Receipts
from actorgraph.values.commits import CommitOutcome, Refused
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import RenewOwner

CHECKS = 6
"""Checks of the lease by the event loop, per lease."""
BEATS = 3
"""Renewals per lease."""
SILENT_LEASES = 4
"""After so many leases without a check the event loop hangs: others may take its runs."""

RenewBeside = Callable[[Sequence[RenewOwner]], list[CommitOutcome]]


class Heartbeat:
    """Renews a lease from a thread of its own.

    A loop with thousands of runs takes seconds per iteration, and a renewal among thousands of
    saves waits as long; the process is alive all the same. The renewal uses a connection of its
    own if the saver has one (`renew_beside`); else it goes before the waiting saves.

    Args:
        host: of the saver.
        owner: the owner of the lease.
        lease_s: seconds of a lease.

    Attributes:
        held_from: when the newest stored renewal was handed over, by `time.monotonic`.
        seen: when the event loop has last checked the lease, by `time.monotonic`.
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
        """Start the thread.

        Args:
            held_from: when the lease was taken, by `time.monotonic`.
        """
        self.held_from = held_from
        self._thread = threading.Thread(target=self._serve, name="actorgraph-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for its last renewal, so that none is stored after this."""
        self._stopped = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def go_on_as(self, owner: bytes) -> None:
        """Renew the lease of another owner from now on, and once at once."""
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
        """Renew the lease, unless it is over: other systems may have the runs then."""
        # After a pause of the whole process this thread may run before the loop has noticed.
        with self._lock:
            moment, owner = time.monotonic(), self._owner
            over = moment - self.held_from > self._lease_s
        if over or moment - self.seen > SILENT_LEASES * self._lease_s:
            return
        renewal = RenewOwner(owner, self._lease_s)
        if self._beside is None:
            self._host.writer.post(
                renewal, Receipts(lambda answer: self._on_answer(answer, moment, owner))
            )
            return
        try:
            (outcome,) = self._beside([renewal])
        except Exception as error:  # noqa: BLE001 - a foreign saver may raise anything
            outcome = Refused(error)
        refused = isinstance(outcome, Refused)
        self._on_answer(SaveFailed(0, outcome.error) if refused else Saved(0), moment, owner)

    def _on_answer(self, answer: Saved | SaveFailed, moment: float, owner: bytes) -> None:
        if isinstance(answer, SaveFailed):
            log_event("warning", "lease.not_renewed", error=repr(answer.error))
            return
        with self._lock:
            if owner == self._owner and moment - self.held_from <= self._lease_s:
                self.held_from = max(self.held_from, moment)


class LeaseActor:
    """Keeps a system's lease; see the module's docstring.

    Args:
        host: of the saver.
        owner: the owner of the lease.
        lease_s: seconds of a lease.
        lost: called when the lease is over; returns the owner id to continue with.
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
            # A limiter of its own: this must not wait for worker threads of the program that hang.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(heartbeat.stop, limiter=anyio.CapacityLimiter(1))

    async def hold(self, owner: bytes) -> None:
        """Return at once while the lease of a run's owner holds; else wait to be cancelled.

        Called before each task of the system's runs: after a pause of the whole process, tasks may
        be ready to begin before `serve` has had its turn. The first of them gives the lease up.

        Args:
            owner: the system's id when the run began. Once the system goes on under another one,
                the run's tasks that are still ready must not begin either.
        """
        if owner == self._owner and time.monotonic() - self._heartbeat.held_from > self._lease_s:
            self._give_up()
        if owner != self._owner:
            await anyio.sleep_forever()

    def _give_up(self) -> None:
        log_event("error", "lease.lost", lease_s=self._lease_s)
        self._owner = self._lost()
        self._heartbeat.go_on_as(self._owner)
