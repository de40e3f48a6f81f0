"""Lists are read a page at a time, on every saver: whole, in order, in little memory."""

import tracemalloc
from uuid import UUID

import anyio.to_thread
import msgspec
import pytest

from actorgraph.codec.records import Record, encode_json, encode_record
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.commits import EPOCH_ANY, CheckpointRow, Commit, ListCheckpoints
from actorgraph.values.retention import CopyThread
from tests.support.graphs import ab, at

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

COUNT = 230


def row(step, parent):
    record = Record(channel_versions={"x": step + 1}, values={"x": step})
    id_ = IDS.checkpoint(0, None)
    return CheckpointRow(
        id=bytes(id_),
        parent=parent,
        step=step,
        source="loop",
        run=None,
        next="[]",
        record=encode_record(record),
        metadata=encode_json({"half": step % 2}),
    )


async def fill(saver, count=COUNT, thread="t"):
    """Checkpoints of two namespaces by turns; their rows, oldest first."""
    rows, requests = [], []
    for step in range(count):
        rows.append(row(step, rows[-1].id if rows else None))
        namespace = "n" if step % 3 == 2 else ""
        commit = Commit(thread, namespace, None, EPOCH_ANY, 0, None, checkpoints=(rows[-1],))
        requests.append(commit)
    await host_of(saver).writer.store(*requests)
    return rows


class Pages:
    """A watch of a saver that notes how many rows each page of a list has."""

    def __init__(self, saver):
        self.lengths = []
        saver.watch = self

    def handed_over(self, request):
        del request

    def asked(self, query):
        return query

    def answered(self, query, answer):
        if isinstance(query, ListCheckpoints):
            self.lengths.append(len(answer))
        return answer


def place_of(found):
    place = found.config["configurable"]
    return place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"]


async def listed(saver, *arguments, **options):
    return [place_of(found) async for found in saver.alist(*arguments, **options)]


async def at_once(saver, thread, **options):
    """The same in one page."""
    found = await host_of(saver).reader.ask(ListCheckpoints(thread, **options))
    return [(c.thread_id, c.namespace, str(UUID(bytes=c.row.id))) for c in found]


class TestPages:
    async def test_all_pages_together_are_the_list(self, saver):
        """
        A list of many pages has each checkpoint once, in order: of a namespace, of a thread, of all
        threads, also where threads have the same ids.
        """
        await fill(saver)
        await fill(saver, 30, "u")
        await host_of(saver).writer.store(CopyThread("a", "t"))

        one = await listed(saver, at(checkpoint_ns="n"))
        assert one == await at_once(saver, "t", namespace="n")
        assert await listed(saver, at()) == await at_once(saver, "t")
        everything = await listed(saver, None)
        assert everything == await at_once(saver, None)
        assert len(everything) == len(set(everything)) == 2 * COUNT + 30
        assert everything == sorted(everything, key=lambda p: (p[2], p[0] == "a"), reverse=True)

    async def test_limit_filter_and_bound_hold_over_pages(self, saver):
        """
        A limit counts over all pages, a filter and a bound hold in each of them.
        """
        rows = await fill(saver)
        bound = at(checkpoint_id=str(UUID(bytes=rows[201].id)))
        steps = [n for n in range(201) if n % 3 != 2][::-1]

        found = [c async for c in saver.alist(at(checkpoint_ns=""), before=bound)]
        assert [c.metadata["step"] for c in found] == steps
        options = {"before": bound, "filter": {"half": 1}, "limit": 50}
        found = [c async for c in saver.alist(at(checkpoint_ns=""), **options)]
        assert [c.metadata["step"] for c in found] == [n for n in steps if n % 2][:50]
        assert await listed(saver, at(), limit=0) == []

    async def test_a_page_has_a_bounded_number_of_rows(self, store):
        """
        No read of a list takes more than 100 rows, and the first one takes few.
        """
        pages = Pages(store.saver())
        async with store.saver() as saver:
            await fill(saver)
            async for _ in saver.alist(at()):
                if len(pages.lengths) == 1:
                    assert pages.lengths == [4]

        assert sum(pages.lengths) == COUNT
        assert max(pages.lengths) <= 100
        assert len(pages.lengths) < 8

    async def test_a_blocking_list_is_read_in_pages_too(self, store):
        """
        `list()` reads a page when it is needed, the first one at the call.
        """
        pages = Pages(store.saver())
        async with store.saver() as saver:
            await fill(saver)

            def take():
                found = saver.list(at())
                assert pages.lengths == [4]
                return [place_of(next(found)) for _ in range(5)], [*map(place_of, found)]

            first, rest = await anyio.to_thread.run_sync(take)
            assert first + rest == await at_once(saver, "t")

    async def test_a_blocking_history_is_read_in_pages_too(self, store):
        """
        `get_state_history()` reads a page of states when it is needed, the first one at the call.
        """
        pages = Pages(store.saver())
        async with store.saver() as saver:
            graph = ab(saver)
            for _ in range(26):
                await graph.ainvoke({"foo": "", "bar": []}, at())
            names = [id_of(s) async for s in graph.aget_state_history(at())]
            pages.lengths.clear()

            def take():
                found = graph.get_state_history(at())
                assert len(pages.lengths) == 1
                first = [id_of(next(found)) for _ in range(5)]
                assert len(pages.lengths) == 1
                return [*first, *map(id_of, found)]

            assert await anyio.to_thread.run_sync(take) == names
            assert len(pages.lengths) == 2


@pytest.mark.one_loop
class TestMemory:
    @pytest.mark.promise("S088")
    async def test_a_long_list_takes_little_memory(self, saver):
        """
        A list of 14 MB of values is read in less than 10 MB.
        """
        config = at(checkpoint_ns="")
        for step in range(70):
            point = {
                "v": 4,
                "id": str(UUID(bytes=bytes(IDS.checkpoint(0, None)))),
                "ts": "",
                "channel_values": {"x": f"{step:03}" + "x" * 200_000},
                "channel_versions": {"x": step + 1},
                "versions_seen": {},
            }
            config = await saver.aput(config, point, {"source": "loop", "step": step}, {})

        tracemalloc.start()
        try:
            steps = [
                int(found.checkpoint["channel_values"]["x"][:3])
                async for found in saver.alist(at())
            ]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert steps == [*range(69, -1, -1)]
        assert peak < 10_000_000


class TestPauses:
    @pytest.mark.promise("S088")
    async def test_a_paused_reader_delays_no_others(self, saver):
        """
        Between two checkpoints of a list runs and removals go on; the list goes on with what was
        there before and is still there.
        """
        rows = await fill(saver)
        names = [str(UUID(bytes=r.id)) for n, r in enumerate(rows) if n % 3 != 2][::-1]
        reading = saver.alist(at(checkpoint_ns=""), before=at(checkpoint_id=names[0]))
        found = [place_of(await anext(reading))[2] for _ in range(4)]

        assert (await ab(saver).ainvoke({"foo": "", "bar": []}, at("other")))["bar"] == ["a", "b"]
        await saver.aput(at(checkpoint_ns=""), point_of(rows[-1]), {"step": 1}, {})
        gone = {names[0], found[-1], names[20]}  # the bound, the last one read, one to come
        assert await saver.adelete_checkpoints("t", gone) == 3

        found += [place_of(c)[2] async for c in reading]
        assert found == [name for name in names[1:] if name != names[20]]

    async def test_a_history_goes_on_past_what_is_removed(self, saver):
        """
        The last checkpoint of a page of a history may be removed before the next page is read.
        """
        graph = ab(saver)
        for _ in range(26):
            await graph.ainvoke({"foo": "", "bar": []}, at())
        names = [
            s.config["configurable"]["checkpoint_id"] async for s in graph.aget_state_history(at())
        ]
        assert len(names) == 104

        reading = graph.aget_state_history(at())
        found = [(await anext(reading)).config["configurable"]["checkpoint_id"] for _ in range(100)]
        assert await saver.adelete_checkpoints("t", [found[-1]]) == 1
        found += [id_of(s) async for s in reading]
        assert found == names


def id_of(found):
    return found.config["configurable"]["checkpoint_id"]


def point_of(row):
    return {
        "v": 4,
        "id": str(UUID(bytes=bytes(IDS.checkpoint(0, None)))),
        "ts": "",
        "channel_values": {"x": msgspec.json.decode(row.record)["values"]["x"]},
        "channel_versions": {"x": 1000},
        "versions_seen": {},
    }
