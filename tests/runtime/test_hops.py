"""Plain functions of nodes in worker threads: one hop for a node and its routers."""

import threading
import traceback
from contextvars import ContextVar
from typing import TypedDict

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
import sniffio

from actorgraph import END, START, StateGraph
from actorgraph.runtime.task import hops
from actorgraph.runtime.task.calling import abandoned
from tests.support.gates import PATIENCE_S


class State(TypedDict, total=False):
    n: int
    seen: list[str]


SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


def graph(node, router=None):
    """One node, and a router that needs a thread: it is declared to be slow."""
    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    if router is None:
        return builder.add_edge("node", END).compile()
    builder.add_conditional_edges("node", router, ["node", END], inline=False)
    return builder.compile()


@pytest.fixture(params=["ours", "anyio's"])
def threads_of(request, monkeypatch):
    """The threads of the library, and those of an anyio that lacks the names that they need."""
    if request.param == "anyio's":
        monkeypatch.setattr(hops, "threadlocals", None)
    return request.param


@pytest.mark.usefixtures("threads_of")
class TestThread:
    async def test_a_node_and_its_router_share_a_thread_and_a_context(self):
        """
        A router sees the context variable that its node has set; the caller doesn't.
        """
        places = []

        def node(_):
            places.append(threading.get_ident())
            SEEN.set("node")
            return {"n": 1}

        def router(_):
            places.append(threading.get_ident())
            places.append(SEEN.get())
            return END

        await graph(node, router).ainvoke({})

        assert places == [places[0], places[0], "node"]
        assert places[0] != threading.get_ident()
        assert SEEN.get() == "nothing"

    async def test_a_function_may_call_its_event_loop(self, anyio_backend_name):
        """
        `from_thread` reaches the loop of the run, and no loop seems to run in the thread.
        """

        async def in_loop():
            return sniffio.current_async_library(), threading.get_ident()

        def node(_):
            with pytest.raises(sniffio.AsyncLibraryNotFoundError):
                sniffio.current_async_library()
            anyio.from_thread.check_cancelled()
            return {"seen": [repr(anyio.from_thread.run(in_loop))]}

        result = await graph(node).ainvoke({})

        assert result["seen"] == [repr((anyio_backend_name, threading.get_ident()))]

    async def test_a_cancelled_function_is_abandoned_and_can_notice(self):
        """
        The run ends at once; the function's thread learns of it from `check_cancelled`.
        """
        began, goes_on, noticed = anyio.Event(), threading.Event(), threading.Event()

        def node(_):
            anyio.from_thread.run_sync(began.set)
            assert goes_on.wait(PATIENCE_S)
            try:
                anyio.from_thread.check_cancelled()
            except BaseException:
                noticed.set()
                raise
            return {}

        async with anyio.create_task_group() as group:
            group.start_soon(graph(node).ainvoke, {})
            await began.wait()
            group.cancel_scope.cancel()

        assert abandoned() == ["node"]
        goes_on.set()
        assert noticed.wait(PATIENCE_S)

    @pytest.mark.parametrize("error", [StopIteration(), GeneratorExit(), KeyError("k")], ids=repr)
    async def test_errors_reach_the_caller(self, error):
        """
        Each error of a node is raised, those that mean something to coroutines too.
        """

        def node(_):
            raise error

        with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
            await graph(node).ainvoke({})

    async def test_a_traceback_has_few_frames_of_the_library(self):
        """
        At most nine frames are shown from the call to the line of the function that has failed.
        """

        def node(_):
            msg = "broken"
            raise ValueError(msg)

        with pytest.raises(ValueError, match="broken") as caught:
            await graph(node).ainvoke({})
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

        assert (len(names) <= 9, names[-1]) == (True, "node")

    async def test_an_awaitable_is_awaited_in_the_loop(self):
        """
        A plain function may return a coroutine, and so may a router.
        """

        async def later():
            await anyio.lowlevel.checkpoint()
            return {"n": threading.get_ident()}

        async def end():
            return END

        result = await graph(lambda _: later(), lambda _: end()).ainvoke({})

        assert result == {"n": threading.get_ident()}


async def test_idle_threads_work_again():
    """
    Calls one after the other take far fewer threads than there are calls.
    """
    places = set()

    def node(state):
        places.add(threading.get_ident())
        return {"n": state.get("n", 0) + 1}

    await graph(node, lambda state: END if state["n"] >= 20 else "node").ainvoke({})

    assert len(places) < 10
