"""All clocks, put forward: runs that begin in an hour begin now, without a wait."""

import time
from collections.abc import Callable

import pytest

from actorgraph.runtime.clock import IDS
from actorgraph.storage.store_clock import StoreClock

Forward = Callable[[float], None]


@pytest.fixture
def forward(monkeypatch: pytest.MonkeyPatch) -> Forward:
    """Put the clocks forward by seconds, servers' too, for this process; not those of leases."""
    real, ahead = time.time_ns, [0]
    by_store = StoreClock.now
    # Ids never go back: without this those of all later tests were of the future.
    monkeypatch.setattr(IDS, "_last", IDS._last)  # noqa: SLF001 - put back after the test
    monkeypatch.setattr(time, "time_ns", lambda: real() + ahead[0])

    def store_now(clock: StoreClock) -> int:
        own = clock._ahead is None  # noqa: SLF001 - then it is the machine's, which is put forward
        return by_store(clock) + (0 if own else ahead[0] // 1000)

    monkeypatch.setattr(StoreClock, "now", store_now)

    def go(seconds: float) -> None:
        ahead[0] += int(seconds * 1e9)

    return go
