"""Worker threads that are kept for a while: the last one that became idle works next.

Daemon threads: a function that never returns does not keep the process alive.
"""

import os
import sys
import threading
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 10.0
"""Seconds after which an idle thread ends."""

BUSY: Final[dict[int, object]] = {}
"""Id of a thread that runs a function of the program -> the task that it runs for, or None."""

Work = Callable[[], Callable[[], None] | None]
"""A function for a thread; it may return another one, which reports its end and never waits."""


class _Worker:
    """A thread that does one piece of work after the other."""

    __slots__ = ("_wake", "_work")

    def __init__(self, work: Work) -> None:
        self._work: Work | None = work
        self._wake = threading.Lock()
        self._wake.acquire(blocking=False)
        threading.Thread(target=self._serve, name="actorgraph-worker", daemon=True).start()

    def give(self, work: Work) -> None:
        """Give it work; it must be idle."""
        self._work = work
        self._wake.release()

    def _serve(self) -> None:
        while True:
            work, self._work = self._work, None
            report = None if work is None else work()
            del work
            _IDLE.append(self)
            # Idle first: the loop that hears of the end gives the next work to this thread, which
            # is awake, and not to another one, which sleeps.
            if report is not None:
                try:
                    report()
                except BaseException:  # noqa: BLE001 - this thread may have got other work
                    here = threading.current_thread()
                    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), here)))
            del report
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


def start(work: Work) -> None:
    """Do work in a worker thread.

    Args:
        work: must not raise; nor must the function that it returns, which is called when the
            thread counts as idle again.
    """
    try:
        worker = _IDLE.pop()
    except IndexError:
        _Worker(work)
    else:
        worker.give(work)
