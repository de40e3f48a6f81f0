"""BuiltinStore and DatabaseStore: base classes of this library's stores.

Batches     are prepared and carried out as `batch` describes; those of async callers of a database
            together, in one transaction
Sweeper     removes expired items in a thread. Not in a task, because a store belongs to no event
            loop: it is used from several ones and from plain threads
"""

import threading
from collections.abc import Callable

from actorgraph.stores.log import warn


class Sweeper:
    """Calls a function at intervals, in at most one thread, until it is stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, sweep: Callable[[], object], *, interval_s: float) -> None:
        """Call `sweep` now and every `interval_s` seconds; does nothing if it is running."""
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
        """Stop the thread; return whether it has ended.

        Args:
            timeout_s: seconds to wait for its end; None without limit.
        """
        with self._lock:
            self._stopped.set()
            thread, self._thread = self._thread, None
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()
