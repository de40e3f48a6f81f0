"""Ends a test process whose test hangs, with the stacks of all threads; pytest-xdist reports it.

One thread watches all tests of a process: pytest's own timer (`faulthandler_timeout`) starts a
thread for each test, which made all of them a tenth slower.
"""

import faulthandler
import os
import sys
import threading
import time

SECONDS_MAX = 120.0
"""Of one test, with its fixtures; the longest takes ten."""
LONG_SECONDS_MAX = 3600.0
"""Of a test in tests/faults."""
_LOOK_S = 5.0


class HangGuard:
    """A pytest plugin; see the module's docstring."""

    def __init__(self) -> None:
        self._current: tuple[str, float] | None = None
        self._stderr = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        threading.Thread(target=self._watch, name="hang-guard", daemon=True).start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note when a test begins."""
        limit = LONG_SECONDS_MAX if nodeid.startswith("tests/faults/") else SECONDS_MAX
        self._current = (nodeid, time.monotonic() + limit)

    def pytest_runtest_logfinish(self) -> None:
        """Forget a test that has ended."""
        self._current = None

    def _watch(self) -> None:
        never = threading.Event()  # a test may replace `time.sleep`
        while not never.wait(_LOOK_S):
            current = self._current
            if current is not None and time.monotonic() > current[1]:
                os.write(self._stderr, f"\nThis test hangs: {current[0]}\n".encode())
                faulthandler.dump_traceback(self._stderr)
                os._exit(1)
