"""Runs that have ended are kept for their results, by number and by bytes."""

import pytest

from actorgraph import ActorSystem, InMemorySaver, get_stream_writer
from actorgraph.api.system.run_handle import StoredRun
from actorgraph.runtime.system import ended_runs
from tests.support.graphs import in_a_row

SIZE = 100_000
ROOM = 5 * SIZE
"""Bytes of ended runs that a system keeps here: at most five results."""


@pytest.fixture(autouse=True)
def small_room(monkeypatch):
    monkeypatch.setattr(ended_runs, "ENDED_BYTES", ROOM)


def large(state):
    return {"foo": f"{state['foo']:0>{SIZE}}"}


def writes_much(state):
    for n in range(10):
        get_stream_writer()(f"{n:0{SIZE // 10}d}")


def fails(state):
    rows = state["foo"] * SIZE
    raise ValueError(len(rows))


async def in_memory(system) -> list[str]:
    found = await system.search_runs(limit=100)
    return [run.thread_id for run in reversed(found.runs) if not isinstance(run, StoredRun)]


async def kept_after(system, count: int, **options) -> list[str]:
    """Start runs one after the other; return the threads of those that are in memory then."""
    for n in range(count):
        run = await system.start("g", f"t{n}", {"foo": str(n)}, **options)
        await run.wait()
    return await in_memory(system)


class TestEndedRuns:
    @pytest.mark.parametrize(
        ("node", "options"),
        [(large, {}), (writes_much, {"stream_mode": "custom"}), (fails, {})],
        ids=["results", "events", "errors"],
    )
    async def test_large_ones_are_kept_by_bytes(self, node, options):
        """
        Of runs with large results, events or errors the newest stay in memory, up to a bound.
        """
        async with ActorSystem({"g": in_a_row({"n": node})}, saver=InMemorySaver()) as system:
            kept = await kept_after(system, 12, **options)

        assert 2 <= len(kept) <= 5
        assert kept == [f"t{n}" for n in range(12 - len(kept), 12)]

    async def test_small_ones_are_kept_by_their_number(self):
        """
        Small results stay, however many, up to `keep_ended`.
        """
        graph = in_a_row({"n": lambda state: {"foo": "x"}})
        async with ActorSystem({"g": graph}, saver=InMemorySaver(), keep_ended=9) as system:
            assert len(await kept_after(system, 12)) == 9

    async def test_the_newest_may_be_of_any_size(self, monkeypatch):
        """
        A result above the bound is kept until another run ends.
        """
        monkeypatch.setattr(ended_runs, "ENDED_BYTES", 1)
        async with ActorSystem({"g": in_a_row({"n": large})}, saver=InMemorySaver()) as system:
            assert await kept_after(system, 3) == ["t2"]

    async def test_every_result_can_still_be_had(self):
        """
        A handle keeps its own result; that of a run which has left the memory is read by its id.
        """
        async with ActorSystem({"g": in_a_row({"n": large})}, saver=InMemorySaver()) as system:
            runs = [await system.start("g", f"t{n}", {"foo": str(n)}) for n in range(12)]
            own = [(await run.result())["foo"] for run in runs]
            found = [await system.run(run.id) for run in runs]
            again = [(await run.result())["foo"] for run in found]

        assert own == again == [f"{n:0>{SIZE}}" for n in range(12)]

    async def test_a_batch_leaves_few_results_behind(self):
        """
        The results of a batch aren't kept beside those that wait for its reader.
        """
        async with ActorSystem({"g": in_a_row({"n": large})}, saver=InMemorySaver()) as system:
            inputs = [{"foo": str(n)} for n in range(30)]
            count = 0
            async for _ in system.map("g", inputs, concurrency=4, ahead_bytes=ROOM):
                count += 1
            kept = len(await in_memory(system))

        assert count == 30
        assert 2 <= kept <= 5
