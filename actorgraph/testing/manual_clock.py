"""ManualClock: a clock of stores that a test moves, so that days pass without a sleep.

What graphs and systems do at a time goes by the clock of the saver's store: questions that are due
or remind, sleeps, delayed runs. With this clock that time stands until the test moves it:

    with ManualClock(saver) as clock:
        async with ActorSystem({"g": graph}, saver=saver) as system:
            await (await system.start("g", "t", {})).wait()   # asks, with due=timedelta(days=3)
            await clock.advance(timedelta(days=3))            # it reminds, then answers itself
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self

import anyio

from actorgraph.errors import CheckpointError, InvalidConfigError
from actorgraph.runtime.saver.hosting import living_host
from actorgraph.storage.store_clock import StoreClock, clock_of
from actorgraph.values.alarms import as_datetime, as_microseconds, from_now
from actorgraph.values.systems import OPEN_STATUSES, ListRuns, RunRow

_LOOK_S = 0.001


class ManualClock:
    """The clock of some savers' stores; it stands until it is moved. For one test at a time.

    Leases, time limits of nodes, retries and the ids of checkpoints go by the machine's clock as
    ever. Crons of `serve` do too.

    Args:
        savers: those whose time it is, open or not; `add` takes further ones. A saver that another
            one wraps has the wrapping one's time only if that is given.
        start: where it stands at first, with a time zone; default now.
        patience_s: how long `advance` waits, at each time, for what began then to end or to pause;
            a run that lasts longer is waited for once. In seconds of the machine's.
    Raises:
        InvalidConfigError: `start` has no time zone.
    """

    def __init__(
        self, *savers: Any, start: datetime | None = None, patience_s: float = 5.0
    ) -> None:
        first = clock_of(savers[0]) if savers else StoreClock()
        self._at = first.now() if start is None else _time("start", start)
        self._patience_s = patience_s
        self._savers: list[tuple[Any, StoreClock]] = []
        self._slow: set[object] = set()
        for saver in savers:
            self.add(saver)

    def __enter__(self) -> Self:
        """Return the clock."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let the savers go by their own clocks again."""
        self.close()

    @property
    def now(self) -> datetime:
        """Where it stands, in UTC."""
        return as_datetime(self._at)

    def add(self, saver: Any) -> None:
        """Let a further saver go by this clock; no-op if it does."""
        if any(saver is known for known, _ in self._savers):
            return
        host = living_host(saver)
        clock = clock_of(saver) if host is None else host.clock
        if getattr(saver, "store_clock", None) is not clock:
            saver.store_clock = clock  # for its next host too
        self._savers.append((saver, clock))
        clock.set(self._at)

    def close(self) -> None:
        """Let the savers go by their own clocks again."""
        for _, clock in self._savers:
            clock.set(None)
        self._savers.clear()

    def move(self, length: timedelta) -> None:
        """Move the clock on at once, without waiting for anything; for tests without a system.

        What became due on the way is found at the new time, as after a pause of the process.

        Raises:
            InvalidConfigError: the length is negative.
        """
        self._set(from_now(_positive(length), self._at))

    async def advance(self, length: timedelta) -> None:
        """Move the clock on, from each time for which something waits to the next.

        At each the systems of these savers do what is due, in order: a reminder after four hours,
        one after a day, the answer after three. Returns once all of it has been looked at, and the
        runs that began have ended or paused, or have lasted `patience_s`.

        Args:
            length: 0 lets the systems do what is due now.
        Raises:
            InvalidConfigError: the length is negative.
        """
        end = from_now(_positive(length), self._at)
        await self._settle()
        while (at := self._next()) and at <= end:
            self._set(max(at, self._at))
            await self._settle()
        self._set(end)
        await self._settle()

    async def advance_to(self, at: datetime) -> None:
        """Move the clock on to a time; see `advance`.

        Raises:
            InvalidConfigError: it has no time zone, or has passed.
        """
        _time("at", at)
        await self.advance(at - self.now)

    def _set(self, at: int) -> None:
        self._at = at
        for _, clock in self._savers:
            clock.set(at)

    def _next(self) -> int:
        """The first time for which something waits; 0 for none."""
        times = (until for _, clock in self._savers for until, _ in tuple(clock.parked.values()))
        return min((until for until in times if until), default=0)

    async def _settle(self) -> None:
        """Wait until systems have nothing to do at this time."""
        with anyio.move_on_after(self._patience_s) as patience:
            await self._quiet()
            while True:
                # After the runs have ended: what they stored, in this process or another, is read.
                for _, clock in self._savers:
                    clock.wake()
                if not await self._quiet():
                    break
        if patience.cancelled_caught:
            self._slow.update(self._at_work(), [row.run for row in await self._open_runs()])

    async def _quiet(self) -> bool:
        """Wait until nothing is done; return whether a run was open meanwhile."""
        ran = False
        while True:
            runs = [] if self._at_work() else await self._open_runs()
            if not runs and not self._at_work():
                return ran
            ran = ran or bool(runs)
            await anyio.sleep(_LOOK_S)

    def _at_work(self) -> set[object]:
        return {who for _, clock in self._savers for who in tuple(clock.at_work)} - self._slow

    async def _open_runs(self) -> Sequence[RunRow]:
        """The runs that are going on, or are about to begin."""
        found: list[RunRow] = []
        for saver, clock in self._savers:
            host = living_host(saver)
            if host is None or not clock.systems:
                continue  # nothing is there that would run them
            if getattr(saver, "keeps_runs", False):
                try:
                    found += await host.reader.ask(ListRuns(statuses=tuple(OPEN_STATUSES)))
                except CheckpointError:  # it is being closed
                    continue
        return [row for row in found if row.due <= self._at and row.run not in self._slow]


def _positive(length: timedelta) -> timedelta:
    if length < timedelta(0):
        raise InvalidConfigError("a clock doesn't go back", do="pass a length of 0 or more")
    return length


def _time(name: str, at: datetime) -> int:
    if at.tzinfo is None:
        raise InvalidConfigError(
            f"{name}={at!r} has no time zone, so it means another time on each machine",
            do="pass e.g. datetime(2030, 1, 1, tzinfo=timezone.utc)",
        )
    return as_microseconds(at)
