"""Signals that come while a blocking call waits, in the main thread."""

import os
import signal
import threading
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from actorgraph import InMemorySaver
from actorgraph.runtime.signals import HELD
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

    def test_one_that_a_function_keeps_works_later(self, handler):
        """
        A function finds the program's handler, and may install it again when the call has ended.
        """
        kept: list[Any] = []

        in_a_row({"a": lambda _: kept.append(signal.signal(NUMBER, signal.SIG_IGN))}).invoke({})
        signal.signal(NUMBER, kept[0])
        signal.raise_signal(NUMBER)

        assert kept == [handler]
        assert handler.called.is_set()

    def test_the_second_one_interrupts_a_reducer_that_never_ends(self, handler, monkeypatch):
        """
        The loop can't call a handler while it is held up: a later signal's is called at once.
        """
        monkeypatch.setattr("actorgraph.runtime.signals.PATIENCE_S", -1.0)
        handler.raises = True
        seen: list[str] = []

        def endless(_old: Any, _new: Any) -> str:
            signal.raise_signal(NUMBER)
            seen.append("after the first")
            signal.raise_signal(NUMBER)
            seen.append("after the second")
            return ""

        class Kept(TypedDict):
            word: Annotated[str, endless]

        graph = in_a_row({"a": lambda _: {"word": "a"}}, schema=Kept)
        with pytest.raises(OutOfTime):
            graph.invoke({})

        assert seen == ["after the first"]


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_an_event_loop_in_a_function_handles_ctrl_c_itself(library):
    """
    Ctrl-C cancels an async program that a node runs, whose `finally` blocks run; the next call of
    the thread works.
    """
    seen: list[str] = []

    async def program() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep(PATIENCE_S)
        finally:
            seen.append("cleaned up")

    graph = in_a_row({"a": lambda _: anyio.run(program, backend=library)})
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({})

    assert seen == ["cleaned up"]
    assert in_a_row({"a": lambda _: {"bar": ["a"]}}).invoke({})["bar"] == ["a"]


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


def test_a_program_that_is_woken_by_signals_still_is(handler):
    """
    The file that a program has set with `set_wakeup_fd` gets the byte of a signal in a call.
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
