"""Signals during a blocking call: handlers of the program never raise inside of an event loop.

A handler that raises, such as Python's own for Ctrl-C, would cut off the loop between any two of
its instructions. So while a call waits, in the main thread, signals come here first:

| the signal comes                  | its handler is called                                        |
|-----------------------------------|--------------------------------------------------------------|
| in a function of the graph        | at once; its error rises in the function, as in any program  |
| elsewhere in the call             | by the loop; its error ends the call, which stores its       |
|                                   | finished work first                                          |
| once more, while the call ends    | by the loop; its error abandons the call at once             |
| when the call has just ended      | after it                                                     |
"""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
"""Signals that programs use to end something. Those of profilers must come at once."""

NOTHING: Final = -1
"""No socket is to be woken."""

Handler = Callable[[int, FrameType | None], object]


class HeldSignals:
    """The signals that come while a call waits; see the module's docstring.

    Args:
        is_inside: whether the thread is in a user's function.
        soon: called when a signal waits for `deliver`.
        wakes: number of a socket that gets a byte for each signal, from `wake` on.
    """

    def __init__(self, is_inside: Callable[[], bool], soon: Callable[[], None], wakes: int) -> None:
        self._is_inside = is_inside
        self._soon = soon
        self._wakes = wakes
        self._woken = NOTHING  # what a signal wakes otherwise
        self._is_armed = False
        self._handlers: dict[int, Handler] = {}  # the program's, of the signals that come here
        self._waiting: deque[tuple[Handler, int, FrameType | None]] = deque()

    def __bool__(self) -> bool:
        """Whether a signal waits for `deliver`."""
        return bool(self._waiting)

    def take(self) -> None:
        """Have signals come here, in the main thread; others get none."""
        if threading.get_ident() != threading.main_thread().ident:
            return
        for number in HELD:
            handler = _SIGNALS.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler  # first: `_arrived` needs it
                _SIGNALS.signal(number, self._arrived)

    def wake(self) -> None:
        """Have signals wake the loop; call it before the loop waits for its sockets.

        Python calls handlers between two instructions: one of a signal that comes in the last
        instant before would wait with the loop.
        """
        if self._handlers and not self._is_armed:
            self._is_armed = True
            self._woken = _SIGNALS.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)

    def give_back(self) -> None:
        """Let signals come to the program's handlers again, and call those that are due.

        Raises: what a handler raises.
        """
        if not self._handlers:
            return
        try:
            self._give_back()
        except BaseException:  # of a handler that was given back already
            self._give_back()
            raise
        self.deliver()

    def _give_back(self) -> None:
        if self._is_armed:
            now = _SIGNALS.set_wakeup_fd(NOTHING)
            if now not in {self._wakes, NOTHING}:  # set by a function
                self._woken = now
            if self._woken != NOTHING:
                with suppress(ValueError, OSError):  # closed meanwhile
                    _SIGNALS.set_wakeup_fd(self._woken)
            self._woken, self._is_armed = NOTHING, False
        for number in tuple(self._handlers):
            if _SIGNALS.getsignal(number) == self._arrived:  # else a function has set another
                _SIGNALS.signal(number, self._handlers[number])
            self._handlers.pop(number, None)

    def deliver(self) -> None:
        """Call the handler of each signal that waits.

        Raises: what a handler raises; signals behind it wait on.
        """
        while self._waiting:
            handler, number, frame = self._waiting.popleft()
            handler(number, frame)

    @property
    def wakes_others(self) -> bool:
        """Whether the program wants to be woken by signals; see `pass_on`."""
        return self._woken != NOTHING

    def pass_on(self, numbers: bytes) -> None:
        """Wake what signals wake in this program, as `signal.set_wakeup_fd` has it."""
        if self._woken != NOTHING:
            with suppress(OSError):
                os.write(self._woken, numbers)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers.get(number)
        if handler is None:  # it came while the handlers were given back
            return
        if self._is_inside():
            handler(number, frame)
        else:
            self._waiting.append((handler, number, frame))
            self._soon()
