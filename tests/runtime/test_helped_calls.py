"""`@task` calls of blocking calls: threads for them, their results, and who is woken by them."""

import contextvars
import operator
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    InMemorySaver,
    RetryPolicy,
    Send,
    SqliteSaver,
    StateGraph,
    get_stream_writer,
    step,
    task,
)
from actorgraph.errors import StepTimeoutError
from actorgraph.runtime import worker_threads
from actorgraph.runtime.helping import LENT, MAX_THREADS
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
from actorgraph.runtime.run.node_actor import NodeActor
from actorgraph.runtime.task.calling import abandoned
from actorgraph.values.run import CancelRequested
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, in_a_row

MANY = MAX_THREADS + 20


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    item: int


@task
def following(item: int) -> int:
    return item + 1


def spread(node: Any, count: int) -> StateGraph:
    builder = StateGraph(State)
    builder.add_node("spread", lambda _: {}).set_entry_point("spread")
    builder.add_node("work", node)
    items = range(count)
    builder.add_conditional_edges("spread", lambda _: [Send("work", {"item": i}) for i in items])
    return builder


def comes_true(condition: Callable[[], bool]) -> bool:
    """Whether something that worker threads bring about is so in the end."""
    end = time.monotonic() + PATIENCE_S
    while not (now := condition()) and time.monotonic() < end:
        threading.Event().wait(0.01)
    return now


class TestManyThreads:
    def test_functions_that_wait_for_their_calls_hold_up_none_of_them(self):
        """
        More functions than there may be helpers wait for a `@task` call each, and all end.
        """
        graph = spread(lambda given: {"log": [following(given["item"]).result(PATIENCE_S)]}, MANY)
        assert sorted(graph.compile().invoke({})["log"]) == list(range(1, MANY + 1))

    def test_abandoned_functions_hold_up_no_later_call(self):
        """
        As many functions as there may be helpers go on after their run's time limit; calls of
        other runs still find a thread.
        """
        ends = threading.Event()
        graph = spread(lambda _: ends.wait(PATIENCE_S), MAX_THREADS).compile()
        graph.step_timeout = 0.3
        try:
            with pytest.raises(StepTimeoutError):
                graph.invoke({})
            other = spread(lambda _: {"log": [following(1).result(PATIENCE_S)]}, 1).compile()
            assert other.invoke({}) == {"log": [2]}
        finally:
            ends.set()
        assert comes_true(lambda: abandoned() == [])  # or later tests would find them

    def test_a_call_without_a_thread_fails(self, monkeypatch):
        """
        A `@task` call for which the system has no thread fails as such; its caller goes on.
        """

        def refuse(_: Any) -> None:
            msg = "can't start new thread"
            raise RuntimeError(msg)

        def node(_: State) -> dict[str, Any]:
            monkeypatch.setattr(worker_threads, "start", refuse)
            try:
                with pytest.raises(RuntimeError, match="can't start new thread"):
                    following(1).result(PATIENCE_S)
            finally:
                monkeypatch.undo()
            return {"log": [following(1).result(PATIENCE_S)]}

        assert in_a_row({"a": node}, schema=State).invoke({}) == {"log": [2]}

    def test_a_step_without_a_thread_is_stored(self, monkeypatch, tmp_path):
        """
        The save of a `step` reaches the function that waits for it though no thread can be had.
        """

        def refuse(_: Any) -> None:
            msg = "can't start new thread"
            raise RuntimeError(msg)

        def node(_: State) -> dict[str, Any]:
            monkeypatch.setattr(worker_threads, "start", refuse)
            try:
                return {"log": [step("key", lambda: 4)]}
            finally:
                monkeypatch.undo()

        with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = in_a_row({"a": node}, schema=State, checkpointer=saver)
            assert graph.invoke({}, at()) == {"log": [4]}


def test_a_function_may_handle_that_its_calls_have_no_frames_left():
    """
    At Python's limit of recursion a `@task` call works or raises RecursionError in its caller,
    which goes on to the next frame.
    """
    tries: list[int] = []

    def deeper(level: int) -> int:
        try:
            return deeper(level + 1)
        except RecursionError:
            tries.append(level)
            return following(level).result(PATIENCE_S)

    graph = in_a_row({"a": lambda _: {"log": [deeper(0)]}}, schema=State)

    assert graph.invoke({}) == {"log": [tries[-1] + 1]}
    assert len(tries) > 1


def test_a_stopped_call_gives_its_next_attempt_no_result():
    """
    A call that was cancelled and ends late isn't taken for the same call of the next attempt.
    """
    begun, late, ended = (threading.Event() for _ in range(3))
    attempts: list[int] = []

    @task
    def call(attempt: int) -> str:
        if attempt == 1:
            begun.set()
            late.wait(PATIENCE_S)
            ended.set()
            return "stale"
        late.set()
        ended.wait(PATIENCE_S)
        return "fresh"

    def node(_: State) -> dict[str, Any]:
        attempts.append(1)
        future = call(len(attempts))
        if len(attempts) == 1:
            assert begun.wait(PATIENCE_S)
            future.cancel()
            raise ConnectionError
        return {"log": [future.result(PATIENCE_S)]}

    builder = StateGraph(State)
    policy = RetryPolicy(initial_interval=0, jitter=False)
    builder.add_node("a", node, retry_policy=policy).set_entry_point("a")
    assert builder.compile().invoke({}) == {"log": ["fresh"]}


def test_a_helper_that_handles_the_last_event_wakes_the_caller(monkeypatch, tmp_path):
    """
    Events handled by another thread, while the calling one finds them taken, wake it.
    """
    drain = vars(BlockingSupervisor)["_drain"]
    parked = threading.Event()

    def slow(self: Any) -> bool:
        answer = drain(self)
        if threading.current_thread().name == "actorgraph-worker":
            parked.wait(0.05)  # never set: the calling thread has parked by then
        return answer

    monkeypatch.setattr(BlockingSupervisor, "_drain", slow)
    with SqliteSaver(tmp_path / "runs.db") as saver:
        nodes = {name: lambda _: {"log": [step("key", lambda: 4)]} for name in "abc"}
        graph = in_a_row(nodes, schema=State, checkpointer=saver)
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(graph.invoke({}, at())), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
    assert done == [{"log": [4, 4, 4]}]


@pytest.fixture
def helpers(monkeypatch) -> Iterator[list[int]]:
    """An item for each helper that was asked for."""
    asked: list[int] = []
    begin = vars(BlockingSupervisor)["_begin_help"]

    def counted(self: Any) -> bool:
        asked.append(1)
        return begin(self)

    monkeypatch.setattr(BlockingSupervisor, "_begin_help", counted)
    return asked


def test_no_helper_begins_while_a_reader_thinks(helpers):
    """
    Between two items of a stream no thread is asked for, however long the reader takes.
    """
    graph = spread(lambda given: {"log": [given["item"]]}, 6).compile()
    chunks = graph.stream({})
    next(chunks)
    next(chunks)
    before = len(helpers)
    threading.Event().wait(0.1)
    assert len(helpers) - before <= 1
    chunks.close()


def test_chunks_above_the_buffer_wait_for_their_reader():
    """
    A step with more chunks than the buffer has room for goes on as its reader takes them.
    """
    graph = in_a_row({name: lambda _: {"log": [1]} for name in "ab"}, schema=State)
    modes = ["updates", "values"]
    chunks = [*graph.stream({"log": [0]}, stream_mode=modes, buffer=1)]

    assert [mode for mode, _ in chunks] == ["values", *modes, *modes]
    assert [chunk for mode, chunk in chunks if mode == "updates"] == [
        {"a": {"log": [1]}},
        {"b": {"log": [1]}},
    ]
    assert chunks[-1] == ("values", {"log": [0, 1, 1]})


def test_a_run_goes_on_whose_helper_had_to_leave(monkeypatch):
    """
    Helpers that come when the reader thinks leave their task; it is done when the reader reads on.
    """
    asked, may_help, left = (threading.Event() for _ in range(3))
    start, late = worker_threads.start, []
    below = in_a_row({"a": lambda _: {"log": ["below"]}}, schema=State)
    nested: list[threading.Thread] = []

    def begin(work: Any) -> None:
        if threading.current_thread() not in nested or left.is_set():
            start(work)
            return

        def waits() -> None:
            may_help.wait(PATIENCE_S)
            work()
            late.remove(work)
            if not late:
                left.set()

        late.append(work)
        start(waits)
        asked.set()

    def node(_: State) -> dict[str, Any]:
        call = contextvars.copy_context().run
        nested.append(threading.Thread(target=call, args=(below.invoke, {}), daemon=True))
        nested[0].start()
        asked.wait(PATIENCE_S)
        get_stream_writer()("the reader thinks")
        nested[0].join()
        return {"log": ["above"]}

    monkeypatch.setattr(worker_threads, "start", begin)
    graph = in_a_row({"a": node}, schema=State)
    chunks = graph.stream({}, stream_mode="custom", subgraphs=True)
    assert next(chunks) == ((), "the reader thinks")
    may_help.set()
    assert left.wait(PATIENCE_S)
    rest: list[Any] = []
    reader = threading.Thread(target=lambda: rest.append(list(chunks)), daemon=True)
    reader.start()
    reader.join(PATIENCE_S)
    assert rest == [[]]


def test_an_await_of_another_kind_fails_its_call(monkeypatch):
    """
    A coroutine of a blocking call that awaits what needs an event loop ends the call, in a
    helper's thread too, with an error that names it.
    """
    outcome = NodeActor.run_task

    class Foreign:
        def __await__(self):
            yield self

    async def awaits(self: Any, start: Any) -> Any:
        if start.task.name == "b":
            await Foreign()
        return await outcome(self, start)

    monkeypatch.setattr(NodeActor, "run_task", awaits)
    graph = in_a_row({"a": lambda _: {}, "b": lambda _: {}}, schema=State)
    with pytest.raises(RuntimeError, match="awaits Foreign"):
        graph.invoke({})
    with pytest.raises(RuntimeError, match="awaits Foreign"):
        list(graph.stream({}, stream_mode="custom"))


def test_ctrl_c_while_a_stream_is_closed_loses_nothing(monkeypatch):
    """
    A signal at the moment at which a left stream is being ended: what has finished is stored.
    """
    from actorgraph.runtime.run import blocking_supervisor

    advance = blocking_supervisor.advance
    clicked: list[int] = []

    def click(state: Any, event: Any) -> Any:
        if isinstance(event, CancelRequested) and not clicked:
            clicked.append(1)
            signal.raise_signal(signal.SIGINT)
        return advance(state, event)

    monkeypatch.setattr(blocking_supervisor, "advance", click)
    graph = in_a_row(
        {"a": lambda _: {"log": [1]}, "b": lambda _: {"log": [2]}},
        schema=State,
        checkpointer=InMemorySaver(),
    )
    chunks = graph.stream({}, at(), durability="exit")
    next(chunks)
    with pytest.raises(KeyboardInterrupt):
        chunks.close()
    assert graph.get_state(at()).values == {"log": [1]}


def test_no_helper_is_counted_after_all_calls():
    """
    The count of helpers is back at none when the calls have ended.
    """
    graph = spread(lambda given: {"log": [following(given["item"]).result(PATIENCE_S)]}, 20)
    graph.compile().invoke({})
    assert comes_true(lambda: vars(LENT)["_count"] == 0)
