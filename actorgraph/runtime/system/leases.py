"""LeaseActor: keeps a system's lease, and stops its runs when it could not.

Sends      one renewal per third of the lease to the store, past the saves, however many runs there
           are
Guards     a lease counts from the moment at which its renewal was handed over, by this process's
           clock; the store counts from the later moment at which it has stored it. So this side
           knows first that it is over, also after a pause of the whole process
"""

import time
from collections.abc import Callable

import anyio
import anyio.lowlevel

from actorgraph.runtime.hosting import Host
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.persistence import Receipts
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import RenewOwner

CHECKS = 6
"""Looks at the lease, per lease; every second one renews it."""


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
        self._held_from = 0.0

    async def take(self) -> None:
        """Take the lease.

        Raises:
            StorageError: it can't be stored.
        """
        moment = time.monotonic()
        await self._host.renewals.store(RenewOwner(self._owner, self._lease_s))
        self._held_from = moment

    async def serve(self) -> None:
        """Renew until cancelled."""
        while True:
            self._renew()
            for _ in range(CHECKS // 3):
                await anyio.sleep(self._lease_s / CHECKS)
                if self._is_over():
                    await anyio.lowlevel.checkpoint()  # on a busy loop an answer may be due
                if self._is_over():
                    self._give_up()

    def _is_over(self) -> bool:
        return time.monotonic() - self._held_from > self._lease_s

    def _renew(self) -> None:
        moment, owner = time.monotonic(), self._owner

        def hear(answer: Saved | SaveFailed) -> None:
            if isinstance(answer, SaveFailed):
                log_event("warning", "lease.not_renewed", error=repr(answer.error))
            elif owner == self._owner:
                self._held_from = max(self._held_from, moment)

        self._host.renewals.post(RenewOwner(owner, self._lease_s), Receipts(hear))

    def _give_up(self) -> None:
        log_event("error", "lease.lost", lease_s=self._lease_s)
        self._owner = self._lost()
        self._held_from = time.monotonic()
        self._renew()
