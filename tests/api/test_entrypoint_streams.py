"""Streams of an entrypoint and of the tasks that it calls."""

from typing import Any

import pytest

from actorgraph import CachePolicy, InMemoryCache, entrypoint, get_stream_writer, interrupt, task
from actorgraph.messages import AIMessage
from tests.support.graphs import at


class TestStreams:
    @pytest.mark.langgraph("F-J8", "F-D5")
    async def test_a_call_is_shown_below_its_caller(self, saver):
        """
        Chunks of a graph inside of a task carry the caller's namespace and the task's.
        """

        @entrypoint()
        async def child(given: int) -> int:
            return given

        @task
        async def outer(given: int) -> int:
            return await child.ainvoke(given)

        @entrypoint(saver)
        async def flow(given: int) -> int:
            return await outer(given)

        stream = flow.astream(1, at(), stream_mode="updates", subgraphs=True)
        found = [([part.split(":")[0] for part in ns], chunk) async for ns, chunk in stream]

        assert found == [
            (["flow", "outer"], {"child": 1}),
            ([], {"outer": 1}),
            ([], {"flow": 1}),
        ]

    @pytest.mark.langgraph("F-D19", "F-J8")
    async def test_chunks_of_a_task_have_the_namespace_of_the_run(self):
        """
        A chunk that a task sends carries the namespace of the graph, not of the call.
        """

        @task
        async def step(n: int) -> int:
            get_stream_writer()(n)
            return n

        @entrypoint()
        async def flow(given: int) -> int:
            return await step(given)

        stream = flow.astream(1, stream_mode="custom", subgraphs=True)

        assert [chunk async for chunk in stream] == [((), 1)]

    @pytest.mark.langgraph("F-J8")
    async def test_tasks_mode_reports_calls(self, saver):
        """
        A call's start shows its arguments, its end what it returned or raised; one that is known
        already is not streamed.
        """

        @task
        async def step(n: int) -> int:
            if n == 2:
                raise ValueError("no")
            return n

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            await step(given)
            with pytest.raises(ValueError, match="no"):
                await step(given + 1)
            return interrupt("?")

        first = [c async for c in flow.astream(1, at(), stream_mode="tasks")]
        again = [c async for c in flow.astream(None, at(), stream_mode="tasks")]

        def told(chunks: list[Any]) -> list[Any]:
            steps = [c for c in chunks if c["name"] == "step"]
            return [c.get("input", (c.get("result"), c.get("error"))) for c in steps]

        failing = [((2,), {}), ({}, "ValueError('no')")]
        assert told(first) == [((1,), {}), ({"__return__": 1}, None), *failing]
        assert told(again) == failing

    @pytest.mark.langgraph("F-J8")
    async def test_messages_name_the_call(self):
        """
        A message that a task returns is streamed with the task's name and place.
        """

        @task
        async def answer() -> AIMessage:
            return AIMessage("hello", id="1")

        @entrypoint()
        async def flow(given: int) -> str:
            return (await answer()).content

        ((message, metadata),) = [c async for c in flow.astream(1, stream_mode="messages")]

        assert (message.content, metadata["langgraph_node"]) == ("hello", "answer")
        caller = ("__pregel_pull", "flow")
        assert metadata["langgraph_path"] == ("__pregel_push", caller, 0, True)

    @pytest.mark.langgraph("F-J3", "F-K2")
    async def test_a_cached_call_says_so(self):
        """
        A result out of a cache is marked, and the function isn't called.
        """
        ran: list[int] = []

        @task(cache_policy=CachePolicy())
        async def step(n: int) -> int:
            ran.append(n)
            return n

        @entrypoint(cache=InMemoryCache())
        async def flow(given: int) -> int:
            return await step(given) + await step(given)

        assert [c async for c in flow.astream(1)] == [
            {"step": 1},
            {"step": 1, "__metadata__": {"cached": True}},
            {"flow": 2},
        ]
        assert ran == [1]

    @pytest.mark.langgraph("F-D16")
    async def test_events_report_results_of_functions(self):
        """
        LangChain's event names show a function's value bare, as the function returned it.
        """

        @task
        async def step(n: int) -> int:
            return n + 1

        @entrypoint()
        async def flow(given: int) -> int:
            return await step(given)

        stream = flow.astream_events(1, version="v2")
        ended = [(e["name"], e["data"]["output"]) async for e in stream if "_end" in e["event"]]

        assert ended == [("step", 2), ("flow", 2), ("flow", 2)]
