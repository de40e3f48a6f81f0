"""Signals that come while a blocking call waits, in the main thread."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anyio
import pytest

from actorgraph import InMemorySaver
from actorgraph.runtime.signals import HELD, HeldSignals
from actorgraph.testing import FaultySaver, GatedSaver
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, in_a_row, side_by_side

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs signals of POSIX"),
    pytest.mark.promise("B3", "B6"),
]
NUMBER = signal.SIGUSR1


class OutOfTime(Exception):
    """Raised by a handler."""


class Handler:
    """A signal's handler, which may raise.

    Attributes:
        called: set when it was.
    """

    def __init__(self) -> None:
        self.called = threading.Event()
        self.raises = False

    def __call__(self, number: int, frame: Any) -> None:
        self.called.set()
        if self.raises:
            raise OutOfTime


@pytest.fixture
def handler() -> Iterator[Handler]:
    made = Handler()
    before = signal.signal(NUMBER, made)
    yield made
    signal.signal(NUMBER, before)


def send() -> None:
    """Send the signal to the main thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, NUMBER)


def in_helpers(function: Any, saver: Any) -> Any:
    """A graph whose functions run in other threads, while the main thread waits in its loop."""
    nodes = {"b": function, "a": lambda _: {"bar": ["a"]}}
    return side_by_side(nodes, checkpointer=saver)


class TestOfHandlers:
    def test_one_that_returns_changes_nothing(self, handler):
        """
        The handler is called while the loop waits, and the call goes on to its result.
        """

        def waits(_: Any) -> dict[str, Any]:
            send()
            return {"bar": [handler.called.wait(PATIENCE_S)]}

        graph = in_helpers(waits, InMemorySaver())

        assert graph.invoke({}, at())["bar"] == ["a", True]

    def test_one_that_raises_in_a_function_ends_it(self, handler):
        """
        The error rises in the function, which may handle it, as with a timeout by SIGALRM.
        """
        handler.raises = True

        def limited(_: Any) -> dict[str, Any]:
            try:
                send()
                threading.Event().wait(PATIENCE_S)
            except OutOfTime:
                return {"bar": ["in time"]}
            return {"bar": ["late"]}

        assert in_a_row({"a": limited}).invoke({})["bar"] == ["in time"]

    def test_one_that_raises_while_the_loop_waits_ends_the_call(self, handler):
        """
        The call stores its finished work, raises the handler's error, and the thread goes on.
        """
        handler.raises = True
        stored, over = threading.Event(), threading.Event()

        def stuck(_: Any) -> dict[str, Any]:
            if handler.raises:
                stored.wait(PATIENCE_S)
                send()
                over.wait(PATIENCE_S)
            return {"bar": ["b"]}

        def note(request: Any) -> None:
            if "bar" in repr(request):
                stored.set()

        graph = in_helpers(stuck, FaultySaver(InMemorySaver(), on_stored=note))
        with pytest.raises(OutOfTime):
            graph.invoke({"bar": []}, at())
        over.set()
        handler.raises = False

        assert [task.result for task in graph.get_state(at()).tasks] == [None, {"bar": ["a"]}]
        assert graph.invoke(None, at())["bar"] == ["a", "b"]

    def test_a_second_one_abandons_the_call(self, handler):
        """
        While storage does not answer, the second signal ends the call that the first one ends.
        """
        handler.raises = True
        saver = GatedSaver(InMemorySaver())
        graph = in_a_row({"a": lambda _: {"bar": ["a"]}}, checkpointer=saver)

        def twice() -> None:
            anyio.run(saver.waiting)
            send()
            handler.called.wait(PATIENCE_S)
            send()

        threading.Thread(target=twice, daemon=True).start()
        with pytest.raises(OutOfTime):
            graph.invoke({}, at(), durability="sync")
        saver.release(None)

    def test_one_that_a_function_installs_stays(self, handler):
        """
        The handler that a node has set is there after the call; others are the program's again.
        """
        other = Handler()
        before = {number: signal.getsignal(number) for number in HELD}

        in_a_row({"a": lambda _: signal.signal(NUMBER, other) and None}).invoke({})

        assert {number: signal.getsignal(number) for number in HELD} == {**before, NUMBER: other}


def test_in_other_threads_signals_are_left_alone(handler):
    """
    A blocking call in another thread changes no handler.
    """
    seen: list[Any] = []
    graph = in_a_row({"a": lambda _: seen.append(signal.getsignal(NUMBER))})

    thread = threading.Thread(target=graph.invoke, args=({},))
    thread.start()
    thread.join(PATIENCE_S)

    assert seen == [handler]


class TestWaking:
    """A loop that waits for its sockets is woken by a signal, and so is what the program has."""

    def test_a_signal_wakes_the_loop(self, handler):
        """
        From `wake` on each signal sends a byte, so that none is seen only when something else is.
        """
        reads, writes = socket.socketpair()
        with closing(reads), closing(writes):
            reads.settimeout(0)
            writes.settimeout(0)
            held = HeldSignals(lambda: False, lambda: None, writes.fileno())
            held.take()
            held.wake()
            signal.raise_signal(NUMBER)
            woken = reads.recv(8)
            held.give_back()

        assert woken == bytes([NUMBER])
        assert handler.called.is_set()
        assert signal.set_wakeup_fd(-1) == -1

    def test_the_program_is_woken_too(self, handler):
        """
        The socket that a program has set with `set_wakeup_fd` is back, and gets the signal's byte.
        """
        reads, writes = os.pipe()
        os.set_blocking(reads, False)
        os.set_blocking(writes, False)
        signal.set_wakeup_fd(writes)

        def waits(_: Any) -> None:
            send()
            handler.called.wait(PATIENCE_S)

        try:
            in_helpers(waits, InMemorySaver()).invoke({}, at())
            woken = os.read(reads, 8)
        finally:
            back = signal.set_wakeup_fd(-1)
            os.close(reads)
            os.close(writes)

        assert (woken, back) == (bytes([NUMBER]), writes)
