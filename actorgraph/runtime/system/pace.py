"""Pace: limits how fast runs are accepted and begun, so that the event loop stays responsive.

Receives   gates, from tasks that are about to set a run up
Sends      turns, in order of arrival: as many per iteration of the loop as keep it short
Bounds     an iteration of the loop should take `ROUND_S`, with all its work; at most
           `AT_ONCE_MAX` turns are taken at the same time; those of runs that begin are given only
           while fewer than `SAVES_MAX` saves wait to be stored. Runs that have begun are never
           held: ten thousand that come at once delay only each other
Ends       with its group; then all waiting tasks get a turn
"""

import time
from collections import deque
from collections.abc import Callable

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from actorgraph.runtime.mailbox import Gate, Mailbox

ROUND_S = 0.004
"""Seconds that an iteration of the event loop should take."""
AT_ONCE_MAX = 64
"""Turns that are taken at the same time, at most."""
SAVES_MAX = 64
"""Requests that wait for the store while runs may begin, at most: saves, acceptances of runs and so
on, of all that use the saver. Runs that only compute have one each nearly always, so about twice as
many are open at a time; runs that wait in nodes have none."""
LOOK_S = 0.001
"""Seconds until it looks again whether there is room."""


class Pace:
    """Gives turns to tasks that set up runs; see the module's docstring.

    Args:
        group: for its task.
        waiting_saves: returns how many saves wait to be stored; None for no such limit.
    """

    def __init__(self, group: TaskGroup, waiting_saves: Callable[[], int] | None = None) -> None:
        self._waiting_saves = waiting_saves
        self._waiting: deque[Gate] = deque()
        self._rounds: Mailbox[None] = Mailbox()
        self._fresh = True
        self._slice_end = 0.0
        self._given = 0
        group.start_soon(self._serve)

    def __len__(self) -> int:
        return len(self._waiting)

    def is_free(self) -> bool:
        """Whether a task that comes now gets a turn at once: no such work is waiting."""
        if self._waiting or not self._has_room():
            return False
        now = time.perf_counter()
        if self._fresh:
            self._slice_end = now + ROUND_S
            self._watch_round()
        return now <= self._slice_end

    async def turn(self, gate: Gate) -> None:
        """Wait for a turn, which ends with `over`.

        Args:
            gate: opened when the turn comes; opening it earlier gives the turn at once.
        """
        if self.is_free():
            gate.open()
        else:
            self._waiting.append(gate)
            self._watch_round()
            await gate.wait()
        self._given += 1

    def over(self) -> None:
        """End a turn."""
        self._given -= 1

    def _has_room(self) -> bool:
        if self._given >= AT_ONCE_MAX:
            return False
        return self._waiting_saves is None or self._waiting_saves() < SAVES_MAX

    def _watch_round(self) -> None:
        if self._fresh:  # the first one of this iteration: wake `_serve`, which notices the next
            self._fresh = False
            self._rounds.put(None)

    async def _serve(self) -> None:
        """Give turns in each iteration of the loop: more of them while iterations are short."""
        at_once = 1
        try:
            while True:
                if not self._waiting:
                    self._fresh = True
                    await self._rounds.get()
                    continue
                began = time.perf_counter()
                if self._has_room():
                    self._give(at_once)
                    await anyio.lowlevel.checkpoint()
                else:
                    await anyio.sleep(LOOK_S)
                # Additive increase, multiplicative decrease, as in TCP's congestion control.
                late = time.perf_counter() - began > ROUND_S
                at_once = max(1, at_once // 2) if late else min(AT_ONCE_MAX, at_once + 1)
        finally:
            self._give(len(self._waiting))

    def _give(self, turns: int) -> None:
        waiting = self._waiting
        while turns and waiting:
            gate = waiting.popleft()
            if not gate.is_open:
                gate.open()
                turns -= 1
