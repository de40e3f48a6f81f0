"""Blocking calls in instants that are rare: each is brought about here, so that it comes always."""

import contextvars
import operator
import signal
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    START,
    InMemorySaver,
    RetryPolicy,
    StateGraph,
    entrypoint,
    get_stream_writer,
    task,
)
from actorgraph.errors import StepTimeoutError
from actorgraph.loops import in_event_loop
from actorgraph.runtime import worker_threads
from actorgraph.runtime.helping import LentThreads
from actorgraph.runtime.mailbox import ThreadWaiter
from actorgraph.runtime.run import blocking_supervisor
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
from actorgraph.runtime.signals import HeldSignals
from actorgraph.testing import GatedSaver
from actorgraph.values.run import StepTimedOut, TaskSucceeded
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, in_a_row


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def beside(functions: dict[str, Callable[[Any], Any]], **options: Any) -> StateGraph:
    """A graph of nodes that begin together.

    Args:
        functions: node name -> its function.
        options: of the first node.
    """
    builder = StateGraph(State)
    for name, function in functions.items():
        builder.add_node(name, function, **options)
        builder.add_edge(START, name)
        options = {}
    return builder


def in_time(call: Callable[[], Any]) -> list[Any]:
    """What a call returns, in a thread of its own; nothing if it hangs or raises."""
    done: list[Any] = []
    run = contextvars.copy_context().run
    thread = threading.Thread(target=lambda: done.append(run(call)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return done


def test_a_failure_ends_the_wait_of_a_task_in_the_calling_thread():
    """
    A task that waits for its next attempt is cancelled when one beside it fails, whose error the
    call raises.
    """
    tried = threading.Event()

    def again(_: Any) -> None:
        tried.set()
        raise ConnectionError

    def fails(_: Any) -> None:
        tried.wait(PATIENCE_S)
        raise ValueError("beside it")

    policy = RetryPolicy(initial_interval=10 * PATIENCE_S, jitter=False)
    graph = beside({"a": again, "b": fails}, retry_policy=policy).compile()
    errors: list[str] = []

    def call() -> None:
        try:
            graph.invoke({})
        except ValueError as error:
            errors.append(str(error))

    in_time(call)
    assert errors == ["beside it"]


def test_chunks_of_graphs_in_a_function_wait_for_no_reader_in_its_thread():
    """
    A graph that a node calls sends more chunks than the buffer has room for, though the stream's
    reader has to wait for the node.
    """
    below = in_a_row({name: lambda _: {"log": [1]} for name in "abc"}, schema=State)
    graph = in_a_row({"node": lambda _: {"log": below.invoke({})["log"]}}, schema=State)
    (chunks,) = in_time(
        lambda: list(graph.stream({}, stream_mode="updates", subgraphs=True, buffer=1))
    )

    assert [next(iter(update)) for _, update in chunks] == ["a", "b", "c", "node"]


def test_a_run_goes_on_whose_watcher_came_while_the_reader_thought(monkeypatch):
    """
    A task that waits when the reader thinks, and for which nobody looks any more, begins beside a
    long one when the reader reads on.
    """
    thinks, left, other = (threading.Event() for _ in range(3))
    start = worker_threads.start

    def begin(work: Any) -> None:
        if getattr(work, "__name__", "") != "_watch" or left.is_set():
            start(work)
            return

        def late() -> None:
            thinks.wait(PATIENCE_S)
            work()
            left.set()

        start(late)

    def writes(_: Any) -> dict[str, Any]:
        get_stream_writer()("the reader thinks")
        return {"log": [other.wait(PATIENCE_S)]}

    monkeypatch.setattr(worker_threads, "start", begin)
    graph = beside({"a": writes, "b": lambda _: other.set()}).compile()
    chunks = graph.stream({"log": [0]}, stream_mode=["custom", "values"])
    first = [next(chunks), next(chunks)]
    thinks.set()
    assert left.wait(PATIENCE_S)

    assert first[1] == ("custom", "the reader thinks")
    assert list(chunks)[-1] == ("values", {"log": [0, True]})


def test_after_its_time_limit_a_step_waits_for_its_saves(monkeypatch):
    """
    A step that has taken too long stores what has ended in it, however slow storage is, and then
    the call raises its error.
    """
    ends = threading.Event()
    seen: list[type] = []
    saver = GatedSaver(InMemorySaver(), is_open=True)
    advance, wait = blocking_supervisor.advance, vars(BlockingSupervisor)["_wait"]

    def noting(state: Any, event: Any) -> Any:
        seen.append(type(event))
        return advance(state, event)

    def first(_: Any) -> dict[str, Any]:
        saver.hold()
        return {"log": [1]}

    async def waits(self: Any) -> None:
        if StepTimedOut in seen:
            saver.release(None)
        elif TaskSucceeded in seen:
            self._limit_at = 0.0
        await wait(self)

    monkeypatch.setattr(blocking_supervisor, "advance", noting)
    monkeypatch.setattr(BlockingSupervisor, "_wait", waits)
    nodes = {"a": first, "b": lambda _: ends.wait(PATIENCE_S) and None}
    graph = beside(nodes).compile(checkpointer=saver)
    graph.step_timeout = PATIENCE_S
    try:
        with pytest.raises(StepTimeoutError):
            graph.invoke({"log": []}, at(), durability="async")
    finally:
        ends.set()

    assert seen.count(StepTimedOut) == 1
    assert [task.result for task in graph.get_state(at()).tasks] == [{"log": [1]}, None]


@task
async def calls_another(number: int) -> int:
    return await one_more(number)


@task
def one_more(number: int) -> int:
    return number + 1


def test_events_from_an_event_loop_are_handled_outside_of_it(monkeypatch):
    """
    What async functions report is handled in another thread than that of their event loop, which
    it could hold up.
    """
    places: list[bool] = []
    advance = blocking_supervisor.advance

    def noting(state: Any, event: Any) -> Any:
        places.append(in_event_loop())
        return advance(state, event)

    monkeypatch.setattr(blocking_supervisor, "advance", noting)

    @entrypoint()
    def main(number: int) -> int:
        return calls_another(number).result(PATIENCE_S)

    assert main.invoke(1) == 2
    assert set(places) == {False}


def after_a_function(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have a signal come each time when the main thread has left a function of a node."""
    leave = HeldSignals.leave_function

    def left(self: HeldSignals) -> None:
        leave(self)
        signal.raise_signal(number)

    monkeypatch.setattr(HeldSignals, "leave_function", left)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs signals of POSIX")
class TestAfterAFunction:
    """Signals that come when a function has returned, and its end is not handled yet."""

    def test_a_handler_that_returns_makes_the_call_wait_for_nothing(self, monkeypatch):
        """
        The handler of the program is called, and the next node begins without a wait.
        """
        handled: list[int] = []
        waits: list[float] = []
        wait = ThreadWaiter.wait

        def noting(self: ThreadWaiter, timeout_s: float) -> None:
            waits.append(timeout_s)
            wait(self, timeout_s)

        monkeypatch.setattr(ThreadWaiter, "wait", noting)
        after_a_function(monkeypatch, signal.SIGUSR1)
        before = signal.signal(signal.SIGUSR1, lambda number, _: handled.append(number))
        try:
            graph = in_a_row({name: lambda _: {"log": [1]} for name in "abc"}, schema=State)
            assert graph.invoke({}) == {"log": [1, 1, 1]}
        finally:
            signal.signal(signal.SIGUSR1, before)

        assert (handled, waits) == ([signal.SIGUSR1] * 3, [])

    def test_ctrl_c_in_a_stream_stores_what_no_reader_gets(self, monkeypatch):
        """
        The update of the function has no reader any more; it is stored, and the call is over.
        """
        after_a_function(monkeypatch, signal.SIGINT)
        nodes = {"a": lambda _: {"log": [1]}, "b": lambda _: {"log": [2]}}
        graph = in_a_row(nodes, schema=State, checkpointer=InMemorySaver())
        with pytest.raises(KeyboardInterrupt):
            list(graph.stream({}, at(), durability="exit"))

        assert graph.get_state(at()).values == {"log": [1]}

    def test_ctrl_c_begins_no_task_that_waits_for_a_thread(self, monkeypatch):
        """
        The call stores its finished work though a helper handles an event now, and a task waits.
        """
        handles, parked = threading.Event(), threading.Event()
        advance = blocking_supervisor.advance

        def slow(state: Any, event: Any) -> Any:
            effects = advance(state, event)
            if threading.current_thread() is not threading.main_thread() and not handles.is_set():
                handles.set()
                parked.wait(0.2)  # never set: the calling thread has seen the task by then
            return effects

        def first(_: Any) -> dict[str, Any]:
            handles.wait(PATIENCE_S)
            return {"log": ["a"]}

        monkeypatch.setattr(blocking_supervisor, "LENT", LentThreads(1))
        monkeypatch.setattr(blocking_supervisor, "advance", slow)
        after_a_function(monkeypatch, signal.SIGINT)
        seen: list[str] = []
        nodes = {"a": first, "b": lambda _: {"log": ["b"]}, "c": lambda _: seen.append("c")}
        graph = beside(nodes).compile(checkpointer=InMemorySaver())
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"log": []}, at(), durability="exit")

        results = {task.name: task.result for task in graph.get_state(at()).tasks}
        assert results == {"a": {"log": ["a"]}, "b": {"log": ["b"]}, "c": None}
        assert seen == []
