"""Delivery of chunks: in sync durability not before their content is durable."""

import pytest

from actorgraph import InMemorySaver, get_stream_writer
from actorgraph.testing import GatedSaver
from tests.support.gates import Turnstile, patient_group, settled
from tests.support.graphs import at, in_a_row, side_by_side, writer


async def read(graph, modes, chunks, **options):
    """Read a whole stream into a list."""
    async with graph.astream({"foo": "x"}, at(), stream_mode=modes, **options) as stream:
        async for chunk in stream:
            chunks.append(chunk)


def talks(name: str):
    """A node that sends a custom chunk and writes its name."""

    async def node(state):
        get_stream_writer()(name)
        return {"bar": [name]}

    return node


def kinds(chunks: list) -> list[str]:
    """The modes of the chunks, in order."""
    return [mode for mode, _ in chunks]


class TestSync:
    @pytest.mark.promise("S074", "S186")
    async def test_a_step_is_reported_once_it_is_stored(self):
        """
        updates, tasks, values and checkpoints of a step wait for its save; custom doesn't.
        """
        chunks: list = []
        modes = ["updates", "tasks", "values", "checkpoints", "custom"]
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            graph = in_a_row({"a": talks("a"), "b": talks("b")}, checkpointer=saver)
            group.start_soon(read, graph, modes, chunks)
            await saver.waiting()
            await settled()
            before = kinds(chunks)
            saver.release()
            await saver.waiting()
            await settled()
            blocked = kinds(chunks)
            saver.release()
            await saver.waiting()
            await settled()
            after = kinds(chunks)

        first = ["checkpoints", "values", "checkpoints", "tasks", "custom"]
        step = ["updates", "tasks", "values", "checkpoints"]
        assert before == []
        assert blocked == first
        assert after == [*first, *step, "tasks", "custom"]
        assert kinds(chunks) == [*after, *step]

    @pytest.mark.promise("S074")
    async def test_a_sibling_is_reported_once_its_writes_are_stored(self):
        """
        With siblings still running, a finished task's chunk waits for its own writes' save.
        """
        chunks: list = []
        slow = Turnstile({"bar": ["slow"]})
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            graph = side_by_side({"fast": writer("fast"), "slow": slow}, checkpointer=saver)
            group.start_soon(read, graph, ["updates", "values"], chunks)
            await saver.waiting()
            saver.release()
            (writes,) = await saver.waiting()
            await settled()
            before = list(chunks)
            saver.release()
            await settled()
            after = list(chunks)
            saver.release(None)
            slow.out.set()

        assert (len(writes.ledger), writes.checkpoints) == (1, ())
        assert kinds(before) == ["values"]
        assert after[1:] == [("updates", {"fast": {"foo": "fast", "bar": ["fast"]}})]
        assert kinds(chunks) == ["values", "updates", "updates", "values"]

    async def test_a_custom_chunk_comes_while_its_node_runs(self):
        """
        Custom chunks of a node are delivered at once, before the node has returned.
        """
        chunks: list = []
        inside = Turnstile({"bar": ["a"]})

        async def node(state):
            get_stream_writer()("hello")
            return await inside(state)

        opened = GatedSaver(InMemorySaver(), is_open=True)
        async with opened as saver, patient_group(saver) as group:
            graph = in_a_row({"a": node}, checkpointer=saver)
            group.start_soon(read, graph, "custom", chunks)
            await inside.entered.wait()
            await settled()
            early = list(chunks)
            inside.out.set()

        assert early == chunks == ["hello"]


class TestTheOtherModes:
    @pytest.mark.parametrize("durability", ["async", "exit"])
    async def test_chunks_come_while_the_saver_is_blocked(self, durability):
        """
        In async and exit, chunks are delivered as things happen.
        """
        chunks: list = []
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            graph = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)
            group.start_soon(
                lambda: read(graph, ["updates", "values"], chunks, durability=durability)
            )
            await saver.waiting()
            saver.release()
            await saver.waiting()
            await settled()
            early = kinds(chunks)

        assert early == ["values", "updates", "values", "updates", "values"]

    async def test_a_graph_without_a_saver_reports_at_once(self):
        """
        Without a saver there is nothing to wait for.
        """
        chunks: list = []
        slow = Turnstile({"bar": ["b"]})
        async with patient_group() as group:
            group.start_soon(read, in_a_row({"a": writer("a"), "b": slow}), "updates", chunks)
            await slow.entered.wait()
            await settled()
            early = list(chunks)
            slow.out.set()

        assert early == [{"a": {"foo": "a", "bar": ["a"]}}]
        assert len(chunks) == 2
