"""LoopWatchdog: warns when the event loop is blocked, and names the node that blocks it.

A task of the loop notes the time every quarter of the limit; a thread checks it. If it is older
than the limit, the stack of the loop's thread shows the node that is being called.
"""

import sys
import threading
import time
from contextvars import Context
from types import FrameType
from typing import Any

import anyio

from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.task.calling import node_writes
from actorgraph.runtime.task.log_context import task_log_ids
from actorgraph.runtime.task.scope import CURRENT, TaskScope


class LoopWatchdog:
    """Warns when the event loop is blocked; see the module's docstring.

    Args:
        limit_s: seconds for which the loop may be blocked.

    Attributes:
        held: how often it was blocked for longer.
        longest_s: the longest time seen, in seconds.
        culprit: the node that blocked it last, or the place in the code.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._mark = time.monotonic()
        self._loop = 0
        self._over = threading.Event()
        self.held = 0
        self.longest_s = 0.0
        self.culprit = ""

    async def serve(self) -> None:
        """Note the time until cancelled; the thread ends with it."""
        self._loop = threading.get_ident()
        self._mark = time.monotonic()
        threading.Thread(target=self._watch, name="actorgraph-watchdog", daemon=True).start()
        try:
            while True:
                self._mark = time.monotonic()
                await anyio.sleep(self._limit_s / 4)
        finally:
            self._over.set()

    def _watch(self) -> None:
        reported = 0.0
        while not self._over.wait(self._limit_s / 4):
            mark = self._mark
            held_s = time.monotonic() - mark
            if held_s <= self._limit_s:
                continue
            self.longest_s = max(self.longest_s, held_s)
            if mark != reported:  # once each time that it is blocked
                reported = mark
                self._report(held_s)

    def _report(self, held_s: float) -> None:
        frames: Any = vars(sys)["_current_frames"]  # the only way to another thread's stack
        frame: FrameType | None = frames().get(self._loop)
        scope, where = culprit_of(frame)
        self.held += 1
        self.culprit = where if scope is None else scope.task.name
        ids = {"node": ""} if scope is None else task_log_ids(scope)
        log_event("warning", "loop.held", **ids, where=where, seconds=round(held_s, 3))


def culprit_of(frame: FrameType | None) -> tuple[TaskScope | None, str]:
    """Find the task in whose node, or in whose child task, a stack ends.

    Returns: the task or None; and the innermost file and line.
    """
    where = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    while frame is not None:
        if frame.f_code is node_writes.__code__:
            return frame.f_locals["scope"], where
        name, attribute = _STEPPING.get(frame.f_globals.get("__name__", ""), ("", ""))
        context = getattr(frame.f_locals.get(name), attribute, None) if name else None
        if isinstance(context, Context) and (scope := context.get(CURRENT)) is not None:
            return scope, where
        frame = frame.f_back
    return None, where


_STEPPING = {"asyncio.events": ("self", "_context"), "trio._core._run": ("task", "context")}
"""Module of an event loop -> (local, attribute) of a task's context in the frame that steps it."""
