"""`ActorSystem.map`: batches of threads over a system, its runs, leases and drains."""

from collections import Counter

import anyio
import pytest

from actorgraph import ActorSystem, InvalidConfigError, SystemClosedError
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.systems import ShardedSystem
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import ab, in_a_row, writer
from tests.support.systems import place, system_of

__all__ = ["place"]


def inputs(text):
    return [{"foo": letter} for letter in text]


def foo(given):
    return given["foo"]


async def collected(batch):
    """The results of a batch, by key."""
    return {result.key: result async for result in batch}


def waits_at_b(slow, ran=None):
    """Two nodes; the second one waits at a turnstile for the thread of letter b."""
    ran = Counter() if ran is None else ran

    async def first(state):
        ran[f"first {state['foo']}"] += 1
        return {"bar": [state["foo"]]}

    async def second(state):
        ran[f"second {state['foo']}"] += 1
        if state["foo"] == "b":
            await slow(state)
        return {"bar": [state["foo"] * 2]}

    return in_a_row({"first": first, "second": second})


@pytest.mark.every_saver
async def test_a_second_pass_skips_done_threads(place):
    """
    Results are outputs and questions as without a system; the runs are those of the system.
    """
    async with system_of(place, ab()) as system:
        first = await collected(system.map("g", inputs("abc"), key=foo))
        again = await collected(system.map("g", inputs("abc"), key=foo))
        runs = await system.runs(thread_id="g:a")

    assert {(one.how, one.status) for one in first.values()} == {("started", "done")}
    assert {(one.how, one.status) for one in again.values()} == {("skipped", "done")}
    assert first["a"].output == again["a"].output == {"foo": "b", "bar": ["a", "b"]}
    assert len(runs) == 1


async def test_a_batch_that_is_left_cancels_its_runs(place):
    """
    The next pass goes on with what they have stored.
    """
    slow, ran = Turnstile(), Counter()
    async with system_of(place, waits_at_b(slow, ran)) as system:
        async with system.map("g", inputs("ab"), key=foo) as batch:
            assert (await anext(batch)).key == "a"
            await slow.entered.wait()
        (run,) = await system.runs(thread_id="g:b")
        assert run.status == "cancelled"
        slow.out.set()
        found = await collected(system.map("g", inputs("ab"), key=foo))

    assert (found["a"].how, found["b"].how) == ("skipped", "resumed")
    assert (ran["first b"], ran["second b"]) == (1, 2)


async def test_a_drain_ends_the_batch(place):
    """
    A closing system ends the batch with an error that says how to go on; its runs are taken over.
    """
    slow = Turnstile()
    raised = []

    async def read(system):
        try:
            await collected(system.map("g", inputs("ab"), key=foo, concurrency=1))
        except Exception as error:  # noqa: BLE001 - looked at below
            raised.append(error)

    async with (
        anyio.create_task_group() as group,
        system_of(place, in_a_row({"a": slow, "b": writer("b")})) as system,
    ):
        group.start_soon(read, system)
        await slow.entered.wait()
        group.start_soon(system.drain)
        slow.out.set()
    async with system_of(place, in_a_row({"a": slow, "b": writer("b")})) as system:
        found = await collected(system.map("g", inputs("ab"), key=foo))

    (error,) = raised
    assert "run the same batch again to go on" in "\n".join(error.__notes__)
    assert [found[key].how for key in "ab"] == ["resumed", "started"]
    assert {one.status for one in found.values()} == {"done"}


async def test_a_thread_with_a_run_is_waited_for(place):
    """
    A run that the program has started is not started again: its end is the thread's.
    """
    slow, ran = Turnstile(), Counter()
    async with system_of(place, waits_at_b(slow, ran)) as system:
        run = await system.start("g", "g:b", {"foo": "b"})
        await slow.entered.wait()
        batch = system.map("g", inputs("ab"), key=foo, changed="keep", concurrency=1)
        assert (await anext(batch)).key == "a"
        slow.out.set()
        (found,) = [result async for result in batch]
        await run.result()

    assert (found.key, found.status, found.output["bar"]) == ("b", "done", ["b", "bb"])
    assert ran["second b"] == 1


async def test_a_full_system_is_waited_for(place):
    """
    Above the system's limits a batch waits instead of failing.
    """
    async with system_of(place, ab(), max_runs=2, max_queued=0, retry_after_s=0.001) as system:
        summary = await system.map("g", inputs("abcdef"), concurrency=6).summary()

    assert (summary.counts.done, summary.counts.failed) == (6, 0)


async def test_chunks_of_runs_reach_a_function(place):
    """
    `on_chunk` reads the events of the modes that were asked for.
    """
    seen = []
    async with system_of(place, ab()) as system:
        await collected(system.map("g", inputs("x"), on_chunk=lambda *one: seen.append(one)))

    assert [(key, mode, *chunk) for key, mode, chunk in seen] == [
        ("0", "updates", "a"),
        ("0", "updates", "b"),
    ]


@pytest.mark.one_loop
async def test_workers_of_other_systems_run_it(place):
    """
    With a dispatcher a system that only accepts runs gives the results of its workers.
    """
    engine = InMemoryDispatcher()
    saver = place.saver()
    with anyio.fail_after(PATIENCE_S):
        async with (
            saver,
            ActorSystem({"g": ab()}, saver=saver, dispatcher=engine, role="work"),
            ActorSystem({"g": ab()}, saver=saver, dispatcher=engine, role="accept") as system,
        ):
            found = await collected(system.map("g", inputs("xy"), key=foo))

    assert {(key, one.status) for key, one in found.items()} == {("x", "done"), ("y", "done")}
    assert found["x"].output["bar"] == ["a", "b"]


class TestRefused:
    async def test_an_unknown_graph_is_refused(self):
        """
        At the call, by name.
        """
        with pytest.raises(InvalidConfigError, match="no graph 'h'"):
            ActorSystem({"g": ab()}).map("h", [])

    async def test_a_system_that_is_not_open_is_refused(self):
        """
        When the batch begins.
        """
        with pytest.raises(SystemClosedError):
            await anext(ActorSystem({"g": ab()}).map("g", inputs("a")))

    async def test_a_sharded_system_is_refused(self):
        """
        With what to do in its place.
        """
        with pytest.raises(InvalidConfigError, match="one database"):
            ShardedSystem.map(object(), "g", [])
