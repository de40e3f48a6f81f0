"""When blocking calls have gone as far as they can: `settled()` under the blocking driver.

A thread is quiet while its stepper waits without having been woken, or while its function
waits for a coroutine of the test's loop. Threads that a run has asked for, and that haven't begun,
aren't seen: so this holds for runs with one task at a time.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from actorgraph.runtime.mailbox import ThreadWaiter
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
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


def _wait(original: Callable[..., None]) -> Callable[..., None]:
    def wait(self: ThreadWaiter, timeout_s: float) -> None:
        with waiting(self):
            original(self, timeout_s)

    return wait


def _wake(original: Callable[..., None]) -> Callable[..., None]:
    def wake(self: ThreadWaiter) -> None:
        woken(self)
        original(self)

    return wake


def _helps(original: Callable[..., None]) -> Callable[..., None]:
    def help_(self: Any) -> None:
        with working(object()):
            original(self)

    return help_


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
    patch.setattr(ThreadWaiter, "wait", _wait(ThreadWaiter.wait))
    patch.setattr(ThreadWaiter, "wake", _wake(ThreadWaiter.wake))
    helper: Any = BlockingSupervisor
    patch.setattr(helper, "_help", _helps(helper._help))  # noqa: SLF001 - the threads that help
    patch.setattr(gates, "settled", _settled(gates.settled))
