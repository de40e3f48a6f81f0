"""Faults of dispatchers whose engine goes away or has messages of others, each with its check."""

import os
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel

from actorgraph import InMemorySaver, StorageError
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.testing import DispatchPlace
from actorgraph.values.dispatch import ID_BYTES, Hint, News
from tests.dispatch.faulty_links import FaultyLink

AGAIN_S = 0.05
HOLDS_NOTHING = "messages_that_are_no_hints_hold_nothing_up"
ENDS_NO_LISTENING = "messages_that_are_no_news_end_no_listening"
HOLDS_NO_CALL = "an_absent_engine_holds_up_no_call"
WORKS_AGAIN = "a_link_works_again_when_its_engine_is_back"


class SparseEngine:
    """A dispatcher in memory whose engine can go away, and gets messages of others.

    Attributes:
        is_away: whether calls fail.
    """

    in_commit = False

    def __init__(self) -> None:
        self.is_away = False
        self._inner = InMemoryDispatcher()
        self._links: list[_SparseLink] = []

    async def open(self, saver: Any, heard: Callable[[News], None]) -> "_SparseLink":
        """Link."""
        self.answer()
        link = _SparseLink(self, heard)
        link.link = await self._inner.open(saver, link.hear)
        self._links.append(link)
        return link

    def answer(self) -> None:
        """Fail while the engine is away."""
        if self.is_away:
            raise StorageError("the engine is away", do="wait")

    async def garble(self, queue: str) -> None:
        """Put a hint and news of nothing among the others."""
        await self._links[0].link.announce([Hint(b"garbage", queue)])
        await self._links[0].link.publish(News((b"garbage",)))

    @asynccontextmanager
    async def away(self) -> Any:
        """Go away until the block ends."""
        self.is_away = True
        try:
            yield
        finally:
            self.is_away = False


class _SparseLink(FaultyLink):
    """A link to such an engine."""

    def __init__(self, engine: SparseEngine, heard: Callable[[News], None]) -> None:
        super().__init__(None)
        self._engine, self._heard = engine, heard
        self.unreadable = 0

    def hear(self, news: News) -> None:
        """Hand on what can be read."""
        if b"garbage" in news.stored:
            self.unreadable += 1
        else:
            self._heard(news)

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Forwarded."""
        self._engine.answer()
        await self.link.announce(hints)

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded, without messages that can't be read."""
        while True:
            self._engine.answer()
            found = await self.link.take(queues, limit)
            hints = [hint for hint in found if len(hint.run) == ID_BYTES]
            if others := [hint for hint in found if hint not in hints]:
                self.unreadable += len(others)
                await self.link.settle(others)
            if hints:
                return hints

    async def publish(self, news: News) -> None:
        """Forwarded."""
        self._engine.answer()
        await self.link.publish(news)


@asynccontextmanager
async def memory_engine() -> Any:
    """A place over an engine in memory."""
    engine = SparseEngine()
    async with InMemorySaver() as saver:
        yield DispatchPlace(
            lambda: engine, lambda: saver, AGAIN_S, garble=engine.garble, away=engine.away
        )


class EngineFault(FaultyLink):
    """A link that forwards everything, and knows whether its engine has been away.

    Attributes:
        was_away: whether a call has failed.
    """

    def __init__(self, heard: Callable[[News], None]) -> None:
        super().__init__(None)
        self._heard = heard
        self.was_away = False

    def hear(self, news: News) -> None:
        """Forwarded."""
        self._heard(news)

    async def call(self, name: str, *given: Any) -> Any:
        """Call a function of the link."""
        try:
            return await getattr(self.link, name)(*given)
        except StorageError:
            self.was_away = True
            raise

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Forwarded."""
        await self.call("announce", hints)

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded."""
        return await self.call("take", queues, limit)

    async def publish(self, news: News) -> None:
        """Forwarded."""
        await self.call("publish", news)


class StopsAtGarbage(EngineFault):
    """Nothing is taken any more after a message that can't be read."""

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded, once."""
        found = await super().take(queues, limit)
        if self.link.unreadable:
            await anyio.sleep_forever()
        return found


class FailsAtGarbage(EngineFault):
    """A message that can't be read is an error of the call that finds it."""

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded."""
        found = await super().take(queues, limit)
        if self.link.unreadable:
            raise ValueError("unreadable")
        return found


class TakesGarbage(EngineFault):
    """A message that can't be read becomes a hint of a run that never was."""

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded, with one more."""
        found = await super().take(queues, limit)
        return [*found, Hint(os.urandom(ID_BYTES), queues[0], receipt=found[0].receipt)]


class DeafAtGarbage(EngineFault):
    """News that can't be read end the listening."""

    def hear(self, news: News) -> None:
        """Forwarded before them."""
        if not self.link.unreadable:
            super().hear(news)


class Waits(EngineFault):
    """Calls wait for the engine."""

    async def call(self, name: str, *given: Any) -> Any:
        """Called again and again."""
        while True:
            try:
                return await super().call(name, *given)
            except StorageError:
                await anyio.sleep(AGAIN_S)


class RawErrors(EngineFault):
    """Errors of the engine's client come out as they are."""

    async def call(self, name: str, *given: Any) -> Any:
        """Forwarded."""
        try:
            return await super().call(name, *given)
        except StorageError as error:
            raise ConnectionResetError from error


class _Silent(EngineFault):
    """A call that gets no answer seems to succeed."""

    silent = ""

    async def call(self, name: str, *given: Any) -> Any:
        """Forwarded."""
        try:
            return await super().call(name, *given)
        except StorageError:
            if name != self.silent:
                raise
            return ()


class SilentAnnounce(_Silent):
    """Hints are dropped without a word."""

    silent = "announce"


class SilentTake(_Silent):
    """There seem to be no hints."""

    silent = "take"


class SilentPublish(_Silent):
    """News are dropped without a word."""

    silent = "publish"


class NoProbe(EngineFault):
    """Empty news, which ask whether the engine is there, are left out."""

    async def publish(self, news: News) -> None:
        """Forwarded if it has any."""
        if news != News():
            await super().publish(news)


class FailingEnd(EngineFault):
    """A link whose engine is away ends with an error."""

    async def close(self) -> None:
        """Forwarded."""
        await super().close()
        if self.was_away:
            raise ConnectionResetError


class EndlessEnd(EngineFault):
    """A link whose engine is away never ends."""

    async def close(self) -> None:
        """Forwarded."""
        await super().close()
        if self.was_away:
            await anyio.sleep_forever()


class NeverBack(EngineFault):
    """A link that was cut stays cut."""

    async def call(self, name: str, *given: Any) -> Any:
        """Forwarded until the first error."""
        if self.was_away:
            await anyio.lowlevel.checkpoint()
            raise StorageError("the connection is closed", do="open another one")
        return await super().call(name, *given)


class NoHintsBack(EngineFault):
    """Calls that wait for hints when the engine goes away aren't made again."""

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded until the first error."""
        if self.was_away:
            await anyio.sleep_forever()
        return await super().take(queues, limit)


class NoNewsBack(EngineFault):
    """The listening isn't renewed."""

    def hear(self, news: News) -> None:
        """Forwarded until the first error."""
        if not self.was_away:
            super().hear(news)


ENGINE_FAULTS: dict[str, tuple[type[EngineFault], str]] = {
    "stops at garbage": (StopsAtGarbage, HOLDS_NOTHING),
    "fails at garbage": (FailsAtGarbage, HOLDS_NOTHING),
    "takes garbage": (TakesGarbage, HOLDS_NOTHING),
    "deaf at garbage": (DeafAtGarbage, ENDS_NO_LISTENING),
    "waits": (Waits, HOLDS_NO_CALL),
    "raw errors": (RawErrors, HOLDS_NO_CALL),
    "silent announce": (SilentAnnounce, HOLDS_NO_CALL),
    "silent take": (SilentTake, HOLDS_NO_CALL),
    "silent publish": (SilentPublish, HOLDS_NO_CALL),
    "no probe": (NoProbe, HOLDS_NO_CALL),
    "failing end": (FailingEnd, HOLDS_NO_CALL),
    "endless end": (EndlessEnd, HOLDS_NO_CALL),
    "never back": (NeverBack, WORKS_AGAIN),
    "no hints back": (NoHintsBack, WORKS_AGAIN),
    "no news back": (NoNewsBack, WORKS_AGAIN),
}
"""Name -> the link with the fault, and the check that finds it."""


class _Faulty:
    """A dispatcher whose links have a fault."""

    def __init__(self, inner: Any, fault: type[EngineFault]) -> None:
        self._inner, self._fault = inner, fault
        self.in_commit = inner.in_commit

    async def open(self, saver: Any, heard: Callable[[News], None]) -> EngineFault:
        """Link, with the fault."""
        made = self._fault(heard)
        made.link = await self._inner.open(saver, made.hear)
        return made


def faulty_engine(place: DispatchPlace, fault: type[EngineFault]) -> DispatchPlace:
    """The same place with a fault in each link."""
    return DispatchPlace(
        lambda: _Faulty(place.dispatcher(), fault),
        place.saver,
        place.again_s,
        garble=place.garble,
        away=place.away,
    )
