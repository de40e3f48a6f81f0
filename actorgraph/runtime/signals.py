"""Signals during a blocking call: handlers of the program never raise between two steps of ours.

A handler that raises, such as Python's own for Ctrl-C, would cut off the driver between any two of
its instructions. So while a call waits, in the main thread, signals come here first:

| the signal comes                      | its handler is called                                    |
|---------------------------------------|----------------------------------------------------------|
| in a function of the graph            | at once: there the program's own handlers are in place   |
| elsewhere in the call                 | where the driver waits; its error ends the call, which   |
|                                       | stores its finished work first                           |
| once more, while the call ends        | there too; its error abandons the call at once           |
| once more, `PATIENCE_S` after one     | at once: a reducer or a policy's function may never end  |
| that still waits                      |                                                          |
| when the call has just ended          | after it                                                 |
"""

import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any, Final

# `signal` looks up an enum for each number and handler: five times as slow, at each call.
_SIGNALS: Any = import_module("_signal" if sys.implementation.name == "cpython" else "signal")

HELD: Final = tuple(
    int(number)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if (number := getattr(signal, name, None)) is not None
)
"""Signals that programs use to end something. Those that sample a program, SIGPROF and SIGVTALRM,
come at once."""

PATIENCE_S: Final = 0.2
"""Seconds for which the driver may be held up before a second signal interrupts it."""

Handler = Callable[[int, FrameType | None], object]


class HeldSignals:
    """The signals that come while a call waits; see the module's docstring.

    Args:
        soon: see the attribute.

    Attributes:
        soon: called when a signal waits for `deliver`.
        waiting: the signals that wait for `deliver`, with their handlers.
    """

    def __init__(self, soon: Callable[[], None]) -> None:
        self.soon = soon
        self._handlers: dict[int, Handler] = {}  # the program's, of the signals that come here
        self._own: Any = None  # `_arrived`, while signals come here: one object, to compare with
        self.waiting: deque[tuple[Handler, int, FrameType | None]] = deque()
        self._since = 0.0

    def __bool__(self) -> bool:
        """Whether a signal waits for `deliver`."""
        return bool(self.waiting)

    def take(self) -> None:
        """Have signals come here, in the main thread; others get none."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        own = self._own = self._arrived
        getsignal = _SIGNALS.getsignal
        for number in HELD:
            handler = getsignal(number)
            if callable(handler) and handler is not own:
                self._handlers[number] = handler  # first: `_arrived` needs it
                _SIGNALS.signal(number, own)

    def enter_function(self) -> None:
        """Put the program's handlers in place: a function of the program is called now."""
        for number, handler in self._handlers.items():
            _SIGNALS.signal(number, handler)

    def leave_function(self) -> None:
        """Have signals come here again.

        Raises: what a handler raises that is still in place; then it is to be called again.
        """
        for number, handler in [*self._handlers.items()]:
            found = _SIGNALS.signal(number, self._own)
            if found is not handler and found is not self._own:  # the function has set it
                self._keep(number, found)

    def _keep(self, number: int, found: Any) -> None:
        if callable(found):
            self._handlers[number] = found
        else:  # ignored, or of the system: it does not come here
            _SIGNALS.signal(number, found)
            del self._handlers[number]

    def give_back(self) -> None:
        """Let signals come to the program's handlers again, and call those that are due.

        Raises: what a handler raises.
        """
        if not self._handlers:
            self._own = None
            return
        try:
            self._give_back()
        except BaseException:  # of a handler that was given back already
            self._give_back()
            raise
        if self.waiting:
            self.deliver()

    def _give_back(self) -> None:
        for number in tuple(self._handlers):
            if _SIGNALS.getsignal(number) is self._own:
                _SIGNALS.signal(number, self._handlers[number])
            self._handlers.pop(number, None)
        self._own = None  # a cycle, which would be freed late

    def deliver(self) -> None:
        """Call the handler of each signal that waits.

        Raises: what a handler raises; signals behind it wait on.
        """
        while self.waiting:
            handler, number, frame = self.waiting.popleft()
            handler(number, frame)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers.get(number)
        if handler is None:  # it came while the handlers were given back
            return
        now = time.monotonic()
        if self.waiting and now - self._since > PATIENCE_S:
            handler(number, frame)
            return
        self._since = now if not self.waiting else self._since
        self.waiting.append((handler, number, frame))
        self.soon()
