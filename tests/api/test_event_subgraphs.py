"""Graphs inside of an event stream's run, and the blocking form of event streams."""

from typing import Any

import pytest

from actorgraph import InMemorySaver, RunControl, interrupt
from actorgraph.errors import GraphDrained, NestedRunError
from tests.api.test_events import Talk, collect, items, outer, speak
from tests.support.graphs import ab, at, in_a_row, writer


class TestGraphsInside:
    @pytest.mark.langgraph("F-D15")
    async def test_lifecycle_reports_start_and_end(self):
        """
        A graph in a node is announced when it starts and when it ends.
        """
        async with outer(writer("x")).astream_events({}, version="v3") as run:
            started, completed = await items(run.lifecycle)

        assert (started["event"], completed["event"]) == ("started", "completed")
        assert started["graph_name"] == "sub"
        assert started["namespace"] == [f"sub:{started['trigger_call_id']}"]

    @pytest.mark.langgraph("F-D15")
    async def test_lifecycle_reports_failures_and_questions(self):
        """
        A graph that raised has failed; one that asked is interrupted.
        """

        async def bad(state):
            raise ValueError("boom")

        async def ask(state):
            interrupt("sure?")

        failing = outer(bad).astream_events({}, version="v3")
        told: list[Any] = []
        with pytest.raises(ValueError, match="boom"):
            await collect(failing.lifecycle, told)
        asking = outer(ask, checkpointer=InMemorySaver())
        async with asking.astream_events({}, at(), version="v3") as run:
            waits = await items(run.lifecycle)

        assert [e["event"] for e in told] == ["started", "failed"]
        assert "boom" in told[-1]["error"]
        assert [e["event"] for e in waits] == ["started", "interrupted"]

    @pytest.mark.langgraph("F-D15")
    async def test_a_drained_run_drains_the_graphs_inside(self):
        """
        A subgraph that waits when its run is drained has neither ended nor failed.
        """
        control = RunControl()

        async def drain(state):
            control.request_drain("deploy")

        inner = in_a_row({"drain": drain, "later": writer("later")})
        graph = in_a_row({"sub": inner}, checkpointer=InMemorySaver())
        run = graph.astream_events({}, at(), version="v3", control=control)
        told: list[Any] = []
        with pytest.raises(GraphDrained):
            await collect(run.lifecycle, told)

        assert [event["event"] for event in told] == ["started", "drained"]

    @pytest.mark.langgraph("F-D15")
    async def test_a_handle_reads_a_graph_of_its_own(self):
        """
        `run.subgraphs` gives a handle with the graph's projections.
        """
        async with outer(writer("x")).astream_events({"foo": "in"}, version="v3") as run:
            (seen,) = [
                (handle.graph_name, await items(handle.values), await handle.output())
                async for handle in run.subgraphs
            ]

        assert seen[0] == "sub"
        assert seen[1] == [{"foo": "in", "bar": []}, {"foo": "x", "bar": ["x"]}]
        assert seen[2] == seen[1][-1]

    @pytest.mark.langgraph("F-D15")
    async def test_handles_drill_down(self):
        """
        A grandchild is on its parent's handle, not on the run.
        """
        graph = in_a_row({"top": outer(writer("x"))})
        paths = []
        async with graph.astream_events({}, version="v3") as run:
            async for handle in run.subgraphs:
                paths.append([part.split(":")[0] for part in handle.path])
                async for below in handle.subgraphs:
                    paths.append([part.split(":")[0] for part in below.path])
                    assert await below.output() == {"foo": "x", "bar": ["x"]}
                assert handle.status == "completed"

        assert paths == [["top"], ["top", "sub"]]

    @pytest.mark.langgraph("F-D15")
    async def test_a_failed_graph_fails_its_handle(self):
        """
        The handle of a graph that raised names the node and the error.
        """

        async def bad(state):
            raise ValueError("boom")

        run = outer(bad).astream_events({}, version="v3")
        handles = aiter(run.subgraphs)
        handle = await anext(handles)

        with pytest.raises(NestedRunError, match=r"'sub'.*boom"):
            await handle.output()
        assert handle.status == "failed"

    @pytest.mark.langgraph("F-D12")
    async def test_the_run_reads_only_its_own_level(self):
        """
        Projections of the run leave out the chunks of subgraphs.
        """
        async with outer(writer("x")).astream_events({"foo": "in"}, version="v3") as run:
            assert await items(run.values) == [
                {"foo": "in", "bar": []},
                {"foo": "x", "bar": ["x"]},
            ]


class TestBlocking:
    @pytest.mark.langgraph("F-D12")
    def test_the_same_without_an_event_loop(self):
        """
        `stream_events` gives the same projections to a plain `for`.
        """
        with outer(writer("x")).stream_events({"foo": "in"}, version="v3") as run:
            inside = [(h.graph_name, list(h.values), h.output) for h in run.subgraphs]

            assert run.output == {"foo": "x", "bar": ["x"]}
            assert run.interrupted is False
            assert run.interrupts == []
        assert inside[0][0] == "sub"
        assert inside[0][1][-1] == inside[0][2] == {"foo": "x", "bar": ["x"]}

    @pytest.mark.langgraph("F-D12")
    def test_messages_and_interleaving(self):
        """
        A message's text and its whole block too.
        """
        graph = in_a_row({"speak": speak}, schema=Talk)
        with graph.stream_events({"messages": []}, version="v3") as run:
            told = [
                (name, list(item.text) if name == "messages" else item)
                for name, item in run.interleave("values", "messages")
            ]
        with graph.stream_events({"messages": []}, version="v3") as run:
            (whole,) = [message.output for message in run.messages]

        assert ("messages", ["hel", "lo"]) in told
        assert whole.content == "hello"

    async def test_it_is_refused_in_a_loop(self):
        """
        A blocking read would stop the loop it runs in.
        """
        with pytest.raises(RuntimeError, match="astream_events"):
            ab().stream_events({}, version="v3")
