"""Worker threads that are kept for a while: the last one that became idle works next.

Daemon threads: a function that never returns does not keep the process alive.
"""

import os
import threading
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 10.0
"""Seconds after which an idle thread ends."""


class _Worker:
    """A thread that does one piece of work after the other."""

    __slots__ = ("_wake", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._wake = threading.Lock()
        self._wake.acquire()
        threading.Thread(target=self._serve, name="actorgraph-worker", daemon=True).start()

    def give(self, work: Callable[[], None]) -> None:
        """Give it work; it must be idle."""
        self._work = work
        self._wake.release()

    def _serve(self) -> None:
        while True:
            work, self._work = self._work, None
            if work is not None:
                work()
                del work
            _IDLE.append(self)
            if not self._wake.acquire(timeout=IDLE_S):
                try:
                    _IDLE.remove(self)
                except ValueError:  # taken just now: its work is about to come
                    self._wake.acquire()
                else:
                    return


_IDLE: list[_Worker] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # a forked child has none of these threads


def start(work: Callable[[], None]) -> None:
    """Do work in a worker thread.

    Args:
        work: must not raise.
    """
    try:
        worker = _IDLE.pop()
    except IndexError:
        _Worker(work)
    else:
        worker.give(work)
