"""The turn of a persistence actor: who takes its requests and commits, one at a time.

Holders    `serve`, from when a request waits in the mailbox until none does; or a leader, a
           caller's thread that commits one request of its own while nothing waits
Order      a leader gets the turn only while the mailbox is empty, and `serve` has it next if
           anything comes meanwhile: no request waits for more than one commit of a leader, and
           none overtakes another
Ends       with `serve`; `take` after that waits for the last leader
"""

import threading
from collections.abc import Sequence
from typing import Generic, TypeVar

from actorgraph.runtime.mailbox import Mailbox

T = TypeVar("T")


class CommitLock(Generic[T]):
    """See the module's docstring.

    Args:
        lock: the actor's, which its senders hold too.
        inbox: its mailbox.

    Attributes:
        direct: what a leader commits now; empty without one.
    """

    def __init__(self, lock: threading.RLock, inbox: Mailbox[T | None]) -> None:
        self._lock, self._inbox = lock, inbox
        self.direct: Sequence[T] = ()
        self._is_free = self._is_wanted = self._has_ended = False
        self._leader_ends: Mailbox[None] = Mailbox()

    # --- of `serve`, which has the turn first ---

    def give(self) -> bool:
        """Free the turn, unless a request waits; return whether it is free."""
        with self._lock:
            self._is_free = not self._inbox.items
            return self._is_free

    async def take(self) -> None:
        """Take the turn back; waits for the end of a leader's commit."""
        while True:
            with self._lock:
                if not self.direct:
                    self._is_free = False
                    return
                self._is_wanted = True
            await self._leader_ends.get()

    def end(self) -> None:
        """Refuse leaders from now on."""
        with self._lock:
            self._is_free, self._has_ended = False, True

    # --- of senders, in any thread ---

    def commit_directly(self, item: T) -> bool:
        """Take the turn for an item that is not in the mailbox; return whether it was free."""
        with self._lock:
            if not self._is_free or self._inbox.items:
                return False
            self.direct, self._is_free = (item,), False
            return True

    def is_direct(self, item: T) -> bool:
        """Whether this item's sender has the turn."""
        return bool(self.direct) and self.direct[0] is item

    def requeue_first(self, item: T) -> bool:
        """Leave the leader's item to `serve`, before all others; False if that has ended."""
        with self._lock:
            if not self._has_ended:
                self._inbox.items.appendleft(item)
            return not self._has_ended

    def end_direct(self) -> None:
        """End the leader's turn."""
        with self._lock:
            wanted = self._is_wanted
            self.direct, self._is_free, self._is_wanted = (), not wanted, False
        if wanted:
            self._leader_ends.put(None)
        elif self._inbox.items:
            self._inbox.wake()
