"""Blocking calls whose plain functions need an event loop: `@task`s, time limits, live chunks."""

import asyncio
import operator
import signal
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    NodeTimeoutError,
    RetryPolicy,
    StateGraph,
    astep,
    entrypoint,
    get_runtime,
    get_stream_writer,
    interrupt,
    task,
)
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.runtime import worker_threads
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.runtime.stepper import Stepper
from actorgraph.runtime.task.calling import InContext
from actorgraph.runtime.task.live import LiveStream
from actorgraph.stores import InMemoryStore
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, in_a_row


class Sum(TypedDict):
    n: Annotated[int, operator.add]


@task
async def ten_times(number: int) -> int:
    await asyncio.sleep(0)
    return number * 10


@task
def one_more(number: int) -> int:
    return number + 1


@task
async def uses_everything(number: int) -> int:
    store = get_runtime().store
    assert store is not None
    await store.aput(("kept",), "number", {"number": number})
    item = await store.aget(("kept",), "number")
    assert item is not None
    both = await asyncio.gather(ten_times(number), one_more(number))
    return sum(both) + await astep("step", lambda: 100) + item.value["number"]


@task(timeout=PATIENCE_S)
async def in_time(number: int) -> int:
    await asyncio.sleep(0)
    return number


@task(timeout=0.01)
async def too_slow(number: int) -> int:
    await asyncio.Event().wait()
    return number


ATTEMPTS: list[int] = []


@task(retry_policy=RetryPolicy(initial_interval=0, retry_on=OSError))
async def second_try(number: int) -> int:
    ATTEMPTS.append(number)
    await asyncio.sleep(0)
    if len(ATTEMPTS) < 2:
        raise OSError
    return number


@task
async def fails(number: int) -> int:
    await asyncio.sleep(0)
    raise ValueError(number)


@task
async def asks(number: int) -> list[int]:
    await asyncio.sleep(0)
    return [number, interrupt("how many?")]


def outcome_of(call: Callable[[], Any]) -> Any:
    """The result of a call, or the type of its error."""
    ATTEMPTS.clear()
    try:
        return call()
    except (NodeTimeoutError, ValueError) as error:
        return type(error)


def blocking(function: Any, saver: Any) -> Any:
    @entrypoint(checkpointer=saver, store=InMemoryStore())
    def main(number: int) -> Any:
        return function(number).result()

    return main


def awaiting(function: Any, saver: Any) -> Any:
    @entrypoint(checkpointer=saver, store=InMemoryStore())
    async def main(number: int) -> Any:
        return await function(number)

    return main


class TestAsyncTasks:
    @pytest.mark.parametrize("saves", [False, True])
    @pytest.mark.parametrize(
        ("function", "outcome"),
        [
            (ten_times, 30),
            (uses_everything, 137),
            (in_time, 3),
            (too_slow, NodeTimeoutError),
            (second_try, 3),
            (fails, ValueError),
        ],
    )
    def test_a_plain_entrypoint_may_wait_for_an_async_task(
        self, function: Any, outcome: Any, saves: bool
    ):
        """
        An async `@task` has the same outcome below a plain entrypoint as below an async one.
        """
        plain = blocking(function, InMemorySaver() if saves else None)
        other = awaiting(function, InMemorySaver() if saves else None)

        found = outcome_of(lambda: plain.invoke(3, at(), durability="sync" if saves else None))

        assert found == outcome
        assert outcome_of(lambda: asyncio.run(other.ainvoke(3, at()))) == outcome

    def test_an_async_task_may_ask(self):
        """
        An async `@task` of a blocking call pauses it with a question, and gets the answer.
        """
        main = blocking(asks, InMemorySaver())
        (question,) = main.invoke(3, at())["__interrupt__"]

        assert question.value == "how many?"
        assert main.invoke(Command(resume=7), at()) == [3, 7]

    def test_a_cancelled_future_ends_the_async_task(self):
        """
        `cancel()` of the future of an async `@task` ends its function where it waits.
        """
        began, ended = threading.Event(), threading.Event()

        @task
        async def waits() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        @entrypoint()
        def main(_: int) -> bool:
            future = waits()
            assert began.wait(PATIENCE_S)
            future.cancel()
            return ended.wait(PATIENCE_S)

        assert main.invoke(0) is True

    def test_an_async_task_that_outlasts_its_run_is_ended(self):
        """
        A blocking call whose function fails ends the async `@task`s that it has not waited for.
        """
        began, ended = threading.Event(), threading.Event()

        @task
        async def waits() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        @entrypoint()
        def main(_: int) -> None:
            waits()
            assert began.wait(PATIENCE_S)
            raise ValueError("enough")

        with pytest.raises(ValueError, match="enough"):
            main.invoke(0)
        assert ended.wait(PATIENCE_S)


def summing(function: Callable[[Any], Any], **options: Any) -> Any:
    """A graph with a graph of this function as its node."""
    below = in_a_row({"below": function}, schema=Sum)
    builder = StateGraph(Sum)
    builder.add_node("graph", below, **options)
    builder.add_edge(START, "graph")
    return builder.compile()


class TestGraphsAsNodes:
    def test_a_graph_of_plain_functions_may_have_a_time_limit(self):
        """
        A blocking call takes a graph with a time limit as its node.
        """
        assert summing(lambda _: {"n": 1}, timeout=PATIENCE_S).invoke({"n": 0}) == {"n": 1}

    def test_its_time_limit_ends_it(self):
        """
        The limit of a graph that is a node ends it in a blocking call too.
        """
        released = threading.Event()
        graph = summing(lambda _: {"n": released.wait(PATIENCE_S)}, timeout=0.01)
        try:
            with pytest.raises(NodeTimeoutError):
                graph.invoke({"n": 0})
        finally:
            released.set()

    def test_ctrl_c_ends_a_graph_with_a_time_limit(self):
        """
        Ctrl-C ends a blocking call that waits for a graph with a time limit.
        """
        released = threading.Event()

        def interrupts(_: Any) -> dict[str, int]:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            released.wait(PATIENCE_S)
            return {"n": 1}

        try:
            with pytest.raises(KeyboardInterrupt):
                summing(interrupts, timeout=2 * PATIENCE_S).invoke({"n": 0})
            assert not released.is_set()
        finally:
            released.set()

    @pytest.mark.parametrize("buffer", [1, 2, 3])
    def test_its_live_chunks_wait_for_a_slow_reader(self, buffer: int):
        """
        A blocking stream with a small buffer gets all live chunks of a graph that is a node.
        """
        graph = summing(writes_five)
        modes = ["custom", "updates"]
        seen = list(graph.stream({"n": 0}, stream_mode=modes, subgraphs=True, buffer=buffer))

        assert [chunk for _, mode, chunk in seen if mode == "custom"] == [0, 1, 2, 3, 4]

    def test_a_reader_may_leave_while_they_wait(self):
        """
        A blocking stream that is closed while a graph in it waits for room ends.
        """
        graph = summing(writes_five)
        stream = graph.stream({"n": 0}, stream_mode=["custom", "updates"], subgraphs=True, buffer=1)
        next(stream)
        stream.close()

        assert list(stream) == []


class Paced:
    """A coroutine of a stepper that has got an answer, and waits for its reader before it goes on.

    Attributes:
        got: the answers that it has seen.
    """

    def __init__(self) -> None:
        self.got: list[str] = []
        self.broadcast = Broadcast(frozenset({"custom"}), 1)
        self._answers: Mailbox[str] = Mailbox()
        live = LiveStream(self.broadcast, frozenset({"custom"}), (), lambda: 0)
        self.stepper: Stepper[None] = Stepper(self._await(live))
        self.stepper.run(lambda: True)
        self.broadcast.try_publish((((), "custom", "chunk"),))
        self._answers.put("answer")
        self.stepper.run(lambda: bool(self.broadcast.waiters[0]))
        assert self.got == []

    async def _await(self, live: LiveStream) -> None:
        await InContext(copy_context(), self._serve(), live)

    async def _serve(self) -> None:
        self.got.append(await self._answers.get())
        self.got.append(await self._answers.get())


class TestPace:
    def test_a_stepper_goes_on_when_the_reader_has_read(self):
        """
        What a coroutine of a stepper waits for comes when the reader has caught up.
        """
        paced = Paced()
        paced.broadcast.take()
        paced.stepper.run(lambda: bool(paced.got))

        assert paced.got == ["answer"]

    def test_a_cancellation_while_it_waits_loses_no_answer(self):
        """
        A stepper that is cancelled while it waits for a reader cancels its coroutine's next wait.
        """
        paced = Paced()
        paced.stepper.cancel()
        with pytest.raises(asyncio.CancelledError):
            paced.stepper.run()

        assert paced.got == ["answer"]


def writes_five(_: Any) -> dict[str, int]:
    for number in range(5):
        get_stream_writer()(number)
    return {"n": 1}


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has no more threads."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker_threads, "_IDLE", [])
    monkeypatch.setattr(threading.Thread, "start", start)


class Messages(TypedDict):
    messages: Annotated[list[Any], operator.add]


@pytest.mark.usefixtures("no_threads")
class TestWithoutThreads:
    @pytest.mark.filterwarnings("error")
    def test_tools_are_called_one_after_the_other(self):
        """
        A node with three tool calls has three results if the system has no thread to give.
        """

        def tool(x: int) -> str:
            """Repeat."""
            return str(x)

        asked = [{"name": "tool", "args": {"x": x}, "id": str(x)} for x in range(3)]
        graph = in_a_row({"tools": ToolNode([tool])}, schema=Messages)

        made = graph.invoke({"messages": [AIMessage("", tool_calls=asked)]})["messages"]

        assert [message.content for message in made[1:]] == ["0", "1", "2"]

    def test_deep_graphs_stay_in_their_thread(self):
        """
        A dozen graphs inside each other end if the system has no thread to give.
        """

        def down(state: Sum) -> dict[str, int]:
            if state["n"]:
                graph.invoke({"n": state["n"] - 1})
            return {"n": 0}

        graph = in_a_row({"down": down}, schema=Sum)

        assert graph.invoke({"n": 12}) == {"n": 12}
