"""Sweeper: a thread that calls a function from time to time, until it is stopped.

A thread, not a task: a store belongs to no event loop, and this works in all of them.
"""

import threading
from collections.abc import Callable

from actorgraph.stores.log import warn


class Sweeper:
    """At most one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, sweep: Callable[[], object], *, interval_s: float) -> None:
        """Call `sweep` now and every `interval_s` seconds; nothing, if it runs already."""
        with self._lock:
            if self.running:
                return
            self._stopped = stopped = threading.Event()

            def loop() -> None:
                while True:
                    try:
                        sweep()
                    except Exception as error:  # noqa: BLE001 - the next one may succeed
                        warn("store.sweep_failed", error=repr(error))
                    if stopped.wait(interval_s):
                        return

            self._thread = threading.Thread(target=loop, name="actorgraph-sweeper", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float | None) -> bool:
        """End the thread; whether it has ended."""
        with self._lock:
            self._stopped.set()
            thread, self._thread = self._thread, None
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()
