"""EngineLink: the link of a system to the engine of its dispatcher, which may be away.

Opens      within `OPEN_S`; a system whose engine is away opens too, and is linked when it is back
Calls      have an answer or a StorageError within `CALL_S`; `take` waits as long as hints do
Watch      publishes empty news every `PROBE_S` if nothing else has asked the engine since
Logs       one log line when the engine goes away and one when it is back, whatever fails
           meanwhile; `away_s` and `unreadable` are figures of the system
Ends       `close` within `CLOSE_S`; an error of it is only logged
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from actorgraph.errors import StorageError
from actorgraph.ports import Dispatcher, DispatchLink
from actorgraph.runtime.log import event as log_event
from actorgraph.values.dispatch import Hint, News

OPEN_S = 15.0
"""Seconds for the engine's answer when a system opens; then the system opens without it."""
CALL_S = 20.0
"""Seconds for an answer of the engine; the library's adapters have shorter limits of their own."""
CLOSE_S = 30.0
PROBE_S = 5.0
"""Seconds between two looks whether the engine is there."""
AGAIN_S = 1.0
"""The same while it is away."""
_TAKE = "take"

T = TypeVar("T")


class EngineLink:
    """A `DispatchLink` that outlives the absence of its engine; see the module's docstring.

    Args:
        dispatcher: opens the link, and again until that succeeds.
        saver: of the system, open.
        heard: called with the news of the engine.
    """

    def __init__(self, dispatcher: Dispatcher, saver: Any, heard: Callable[[News], None]) -> None:
        self._dispatcher = dispatcher
        self._saver = saver
        self._heard = heard
        self._link: DispatchLink | None = None
        self._failing: set[str] = set()  # the calls whose last answer was an error
        self._away_since: float | None = None
        self._answered_at = float("-inf")
        self._waits_since: float | None = None  # of `take`
        self._error: BaseException | None = None
        self._unreadable_logged = 0

    @property
    def is_away(self) -> bool:
        """Whether the engine doesn't answer."""
        return self._away_since is not None

    @property
    def away_s(self) -> float:
        """Seconds for which the engine has not answered; 0 if it does."""
        return 0.0 if self._away_since is None else time.monotonic() - self._away_since

    @property
    def brings_news(self) -> bool:
        """Whether news of other systems come, as far as is known."""
        return not self.is_away and not getattr(self._link, "is_deaf", False)

    @property
    def unreadable(self) -> int:
        """Messages that the link has dropped because they can't be read."""
        return getattr(self._link, "unreadable", 0)

    def has_logged(self, error: BaseException) -> bool:
        """Whether an error is one of the engine's, which has its log line."""
        return error is self._error

    async def open(self) -> None:
        """Open the link; an engine that is away is only noted.

        Raises:
            InvalidConfigError: the dispatcher can't be used so.
        """
        try:
            with anyio.fail_after(OPEN_S):
                self._link = await self._dispatcher.open(self._saver, self._heard)
        except (StorageError, TimeoutError, OSError) as error:
            self._failed("open", error)
        else:
            self._answered("open")

    async def serve(self) -> None:
        """Look after the engine until cancelled."""
        while True:
            await anyio.sleep(AGAIN_S if self.is_away else PROBE_S)
            # Errors are noted where they come; those of a custom adapter may be of any class.
            with suppress(Exception):
                if self._link is None:
                    await self.open()
                elif self.is_away or time.monotonic() - self._answered_at >= PROBE_S:
                    await self._probe()
            self._log_unreadable()

    async def _probe(self) -> None:
        await self.publish(News())
        # Other calls that have failed may not come again for long; the engine answers this one.
        # But `take` is called again after each error: it works once it waits.
        waits = self._waits_since
        failing = waits is None or time.monotonic() - waits < 2 * AGAIN_S
        self._failing &= {_TAKE} if failing else set()
        self._note()

    async def close(self) -> None:
        """Close the link."""
        link, self._link = self._link, None
        if link is None:
            return
        try:
            with anyio.fail_after(CLOSE_S):
                await link.close()
        except Exception as error:  # noqa: BLE001 - nothing is lost: hints come again
            if not self.is_away:
                log_event("warning", "dispatch.failed", where="close", error=repr(error))

    async def announce(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._call("announce", lambda link: link.announce(hints))

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """See `ports.DispatchLink`."""
        self._waits_since = time.monotonic()
        try:
            return await self._call(_TAKE, lambda link: link.take(queues, limit))
        finally:
            self._waits_since = None

    async def settle(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._call("settle", lambda link: link.settle(hints))

    async def release(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._call("release", lambda link: link.release(hints))

    async def publish(self, news: News) -> None:
        """See `ports.DispatchLink`."""
        await self._call("publish", lambda link: link.publish(news))

    async def _call(self, name: str, work: Callable[[DispatchLink], Awaitable[T]]) -> T:
        try:
            if self._link is None:
                raise StorageError(
                    "the dispatcher's engine could not be reached when the system was opened",
                    do="check its address and that it runs; runs are stored, and found by sweeps",
                )
            with anyio.fail_after(None if name == _TAKE else CALL_S):
                answer = await work(self._link)
        except Exception as error:
            self._failed(name, error)
            raise
        self._answered(name)
        return answer

    def _answered(self, name: str) -> None:
        self._answered_at = time.monotonic()
        if self._failing:
            self._failing.discard(name)
            self._note()

    def _failed(self, name: str, error: BaseException) -> None:
        self._failing.add(name)
        self._error = error
        self._note()

    def _note(self) -> None:
        """Log that the engine has gone away, or is back."""
        if self._failing and self._away_since is None:
            self._away_since = time.monotonic()
            log_event("warning", "dispatch.away", error=repr(self._error))
        elif not self._failing and self._away_since is not None:
            log_event("info", "dispatch.back", away_s=round(self.away_s, 1))
            self._away_since = None

    def _log_unreadable(self) -> None:
        if (count := self.unreadable) != self._unreadable_logged:
            self._unreadable_logged = count
            log_event("warning", "dispatch.unreadable", dropped=count)
