"""When blocking calls have gone as far as they can: `settled()` under the blocking driver.

A thread is quiet while its caller's loop waits without having been woken, or while its function
waits for a coroutine of the test's loop. Threads that a run has asked for, and that haven't begun,
aren't seen: so this holds for runs with one task at a time.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from actorgraph.runtime import caller
from tests.support import gates

POLL_S = 0.001

_working: set[object] = set()
"""The blocking calls that have a thread, and what helps them."""

_quiet: set[object] = set()
"""The waits of threads; each thread is in one at most."""

_waits = count()
_begun = 0
"""How many waits have begun: unchanged if nothing has gone on in between."""


@contextmanager
def working(key: object) -> Generator[None]:
    """Inside, a thread works for a blocking call."""
    _working.add(key)
    try:
        yield
    finally:
        _working.discard(key)


@contextmanager
def waiting(key: object) -> Generator[None]:
    """Inside, this thread waits, until `woken` says that it goes on."""
    global _begun  # noqa: PLW0603 - one for all threads
    _begun = next(_waits)
    _quiet.add(key)
    try:
        yield
    finally:
        _quiet.discard(key)


def woken(key: object) -> None:
    """Note that what waits is about to be woken; called before it is."""
    _quiet.discard(key)


def _select(original: Callable[..., Any]) -> Callable[..., Any]:
    def select(self: Any, timeout: float | None = None) -> Any:
        if timeout == 0 or not self._lock.locked():
            return original(self, timeout)
        with waiting(self):
            return original(self, timeout)

    return select


def _wake(original: Callable[..., None]) -> Callable[..., None]:
    def wake(self: Any) -> None:
        woken(self)
        original(self)

    return wake


def _entered(original: Callable[..., None]) -> Callable[..., None]:
    def enter(self: Any) -> None:
        _working.add(self)
        original(self)

    return enter


def _left(original: Callable[..., None]) -> Callable[..., None]:
    def leave(self: Any, *error: object) -> None:
        original(self, *error)
        _working.discard(self)

    return leave


def _settled(original: Callable[..., Any]) -> Callable[..., Any]:
    async def settled(rounds: int = 30) -> None:
        """As `gates.settled`, and until no blocking call goes on."""
        await original(rounds)
        while _working:
            before = _begun
            await original(rounds)
            if len(_quiet) >= len(_working) and before == _begun:
                return
            await asyncio.sleep(POLL_S)

    return settled


def install(patch: pytest.MonkeyPatch) -> None:
    """Let `settled()` wait for blocking calls too."""
    selector: Any = caller._Waiting  # noqa: SLF001 - what threads wait in
    patch.setattr(selector, "select", _select(selector.select))
    patch.setattr(selector, "wake", _wake(selector.wake))
    patch.setattr(caller.Helping, "__enter__", _entered(caller.Helping.__enter__))
    patch.setattr(caller.Helping, "__exit__", _left(caller.Helping.__exit__))
    patch.setattr(gates, "settled", _settled(gates.settled))
