"""Pace: lets runs come and begin no faster than the event loop and the store take their work.

Receives   gates, from tasks that are about to set a run up
Sends      turns, in order of arrival: as many per round of the loop as keep a round short
Bounds     a round of the loop aims at `ROUND_S`, whatever it consists of; `AT_ONCE_MAX` have
           their turn at once; with a writer, no turn is given while a whole batch waits to be
           stored. Runs that have begun are never held: one that waits in a node keeps nobody,
           and ten thousand that come at once don't stop the loop for all others
Ends       with its group; then everybody has a turn
"""

import time
from collections import deque

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from actorgraph.runtime.mailbox import Gate, Mailbox
from actorgraph.runtime.persistence import BATCH_MESSAGES_MAX, PersistenceActor

ROUND_S = 0.004
AT_ONCE_MAX = 64
LOOK_S = 0.001


class Pace:
    """See the module's text.

    Args:
        group: where its task lives. writer: whose queue holds back who waits; None for none.
    """

    def __init__(self, group: TaskGroup, writer: PersistenceActor | None = None) -> None:
        self._writer = writer
        self._waiting: deque[Gate] = deque()
        self._rounds: Mailbox[None] = Mailbox()
        self._fresh = True
        self._slice_end = 0.0
        self._given = 0
        group.start_soon(self._serve)

    def __len__(self) -> int:
        return len(self._waiting)

    def is_free(self) -> bool:
        """Whether who comes now has a turn at once: the loop is not busy with such work."""
        if self._waiting or not self._has_room():
            return False
        now = time.perf_counter()
        if self._fresh:
            self._slice_end = now + ROUND_S
            self._hear_of_rounds()
        return now <= self._slice_end

    async def turn(self, gate: Gate) -> None:
        """Wait for a turn, which ends with `over`.

        Args:
            gate: who opens it meanwhile gives the turn, out of turn.
        """
        if self.is_free():
            gate.open()
        else:
            self._waiting.append(gate)
            self._hear_of_rounds()
            await gate.wait()
        self._given += 1

    def over(self) -> None:
        """A turn is over."""
        self._given -= 1

    def _has_room(self) -> bool:
        if self._given >= AT_ONCE_MAX:
            return False
        return self._writer is None or self._writer.waiting < BATCH_MESSAGES_MAX

    def _hear_of_rounds(self) -> None:
        if self._fresh:  # this is the first one of a round
            self._fresh = False
            self._rounds.put(None)

    async def _serve(self) -> None:
        """Give turns, each round of the loop: more per round while rounds are short."""
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
