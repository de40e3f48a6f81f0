"""Keeps full collections of garbage quick: they see no object that was there between two tests.

Imports and caches grow by a million objects in the course of a run, and each `gc.collect()` of a
test would look at all of them again. So after a slow collection, once the test has ended, the
objects that are left are frozen. A test's own objects are collected as ever.
"""

import gc
import time

SLOW_S = 0.003
"""CPU time of a full collection from which on the heap is too large."""


class SmallHeap:
    """A pytest plugin; see the module's docstring."""

    def __init__(self) -> None:
        self._began = 0.0
        self._is_large = False
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            now = time.thread_time()
            if phase == "start":
                self._began = now
            elif now - self._began > SLOW_S:
                self._is_large = True

    def pytest_runtest_logfinish(self) -> None:
        """Freeze what a test has left behind, if the heap has become too large."""
        if self._is_large:
            gc.collect()
            gc.freeze()
            self._is_large = False
