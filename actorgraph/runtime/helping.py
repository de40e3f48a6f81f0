"""How many threads help the blocking calls of this process.

A function in a helper's thread that waits for its own `@task` calls doesn't count meanwhile:
those need threads too, and could have none while functions that wait for them have all.
"""

import os
import threading
from typing import Final

MAX_THREADS: Final = 256


class LentThreads:
    """Counts helpers; used from all threads.

    Args:
        limit: how many there may be.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.reset()

    def reset(self) -> None:
        """Forget all helpers: a forked process has none of their threads."""
        self._lock = threading.RLock()  # a finalizer inside it may begin a call
        self._count = 0

    def take(self) -> bool:
        """Count one more; False if there are as many as there may be."""
        with self._lock:
            if self._count >= self._limit:
                return False
            self._count += 1
            return True

    def take_again(self) -> None:
        """Count one that goes on after a wait, however many there are."""
        with self._lock:
            self._count += 1

    def give_back(self) -> None:
        """Count one less."""
        with self._lock:
            self._count -= 1


LENT: Final = LentThreads(MAX_THREADS)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LENT.reset)
