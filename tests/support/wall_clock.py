"""The computer's clock, put forward: runs that begin in an hour begin now, without a wait."""

import time
from collections.abc import Callable

import pytest

from actorgraph.runtime.clock import IDS

Forward = Callable[[float], None]


@pytest.fixture
def forward(monkeypatch: pytest.MonkeyPatch) -> Forward:
    """Put the wall clock forward by seconds, for this process; leases have clocks of their own."""
    real, ahead = time.time_ns, [0]
    # Ids never go back: without this those of all later tests were of the future.
    monkeypatch.setattr(IDS, "_last", IDS._last)  # noqa: SLF001 - put back after the test
    monkeypatch.setattr(time, "time_ns", lambda: real() + ahead[0])

    def go(seconds: float) -> None:
        ahead[0] += int(seconds * 1e9)

    return go
