"""Signals that come while a blocking call waits, in the main thread."""

import os
import signal
import threading
from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from actorgraph import START, CachePolicy, InMemoryCache, InMemorySaver, StateGraph
from actorgraph.runtime.signals import HELD, HeldSignals
from actorgraph.runtime.stepper import Stepper, stepper_here
from actorgraph.runtime.worker_threads import BUSY
from actorgraph.testing import FaultySaver, GatedSaver
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, at, in_a_row, side_by_side

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


def ctrl_c() -> None:
    """Have Ctrl-C arrive in this thread, the main one, at once."""
    signal.raise_signal(signal.SIGINT)


def interrupted(function: Any, *, before: bool = False) -> Any:
    """A forced instant: the first call of a function is followed by Ctrl-C.

    Args:
        function: what is called.
        before: Ctrl-C comes before it instead.
    """
    calls = count()

    def call(*args: Any) -> Any:
        first = next(calls) == 0
        if first and before:
            ctrl_c()
        returned = function(*args)
        if first and not before:
            ctrl_c()
        return returned

    return call


class TestAnyInstant:
    """Ctrl-C in the instants in which a call begins, or enters and leaves a function."""

    @pytest.mark.parametrize("name", ["enter_function", "leave_function"])
    @pytest.mark.parametrize("before", [True, False])
    @pytest.mark.parametrize("part", [HeldSignals, Stepper])
    def test_around_a_function_the_driver_stays_shielded(self, monkeypatch, part, name, before):
        """
        The call ends with KeyboardInterrupt; no task counts as running, and the driver's own
        handlers are in place while it stores the end.
        """
        moment = interrupted(getattr(part, name), before=before)
        monkeypatch.setattr(part, name, moment)
        seen: list[Any] = []
        saver = FaultySaver(
            InMemorySaver(), on_stored=lambda _: seen.append(signal.getsignal(signal.SIGINT))
        )

        with pytest.raises(KeyboardInterrupt):
            in_a_row({"a": lambda _: None}, checkpointer=saver).invoke({}, at(), durability="sync")

        assert seen
        assert signal.default_int_handler not in seen
        assert BUSY == {}
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_a_handler_of_a_function_stays_if_it_comes_while_that_is_left(self, monkeypatch):
        """
        The handlers that a function has set are there after a call that was interrupted.
        """
        other = Handler()
        before = signal.getsignal(NUMBER)
        moment = interrupted(HeldSignals.leave_function, before=True)
        monkeypatch.setattr(HeldSignals, "leave_function", moment)
        try:
            with pytest.raises(KeyboardInterrupt):
                in_a_row({"a": lambda _: signal.signal(NUMBER, other) and None}).invoke({})
            assert signal.getsignal(NUMBER) is other
        finally:
            signal.signal(NUMBER, before)

    def test_just_before_a_function_it_rises_in_that(self, monkeypatch):
        """
        A signal that comes when the driver is about to call a function is not held until its end.
        """
        moment = interrupted(HeldSignals.enter_function, before=True)
        monkeypatch.setattr(HeldSignals, "enter_function", moment)
        seen: list[str] = []

        with pytest.raises(KeyboardInterrupt):
            in_a_row({"a": lambda _: seen.append("called")}).invoke({})

        assert seen == []

    def test_before_the_first_step_nothing_is_left_behind(self, monkeypatch):
        """
        After Ctrl-C in the instant in which a call begins, the thread counts as outside of one.
        """
        moment = interrupted(HeldSignals, before=True)
        monkeypatch.setattr("actorgraph.runtime.stepper.HeldSignals", moment)
        graph = in_a_row({"a": lambda _: {"bar": ["a"]}})

        with pytest.raises(KeyboardInterrupt):
            graph.invoke({})

        assert stepper_here() is None
        assert graph.invoke({})["bar"] == ["a"]


class TestWhereAFunctionRuns:
    """The first Ctrl-C rises in a function, in whatever way that is called."""

    def test_in_a_call_that_collects_a_stream(self):
        """
        `invoke(..., stream_mode=...)` is interrupted in the function, not after it.
        """
        seen: list[str] = []

        def node(_: Any) -> None:
            ctrl_c()
            seen.append("went on")

        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            in_a_row({"a": node}).invoke({}, stream_mode="updates")

        assert seen == []
        assert signal.getsignal(signal.SIGINT) is before

    @pytest.mark.parametrize("way", ["node", "router", "inline router", "cache"])
    def test_in_an_awaitable_that_a_plain_function_returns(self, way):
        """
        The awaitable is cancelled at the first Ctrl-C, and its `finally` blocks run.
        """
        seen: list[str] = []

        async def forever(*_: Any) -> Any:
            try:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                await anyio.sleep_forever()
            finally:
                seen.append("cancelled")

        class Cache(InMemoryCache):
            get = None  # pyright: ignore[reportAssignmentType]
            aget = forever  # pyright: ignore[reportAssignmentType]

        builder = StateGraph(AB)

        def plain(_: AB) -> Any:
            return forever()

        answer = plain if way == "node" else lambda _: None
        policy = CachePolicy() if way == "cache" else None
        builder.add_node("a", answer, cache_policy=policy)
        builder.add_edge(START, "a")
        if "router" in way:
            builder.add_conditional_edges("a", plain, ["a"], inline=way == "inline router")
        graph = builder.compile(cache=Cache())

        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"foo": ""})

        assert seen == ["cancelled"]
