"""One run at a time on a thread: losers hear it before their first node, and nothing is lost."""

import threading
from functools import partial

import anyio
import pytest

from actorgraph import AlreadyResumed, Command, ConflictError, InMemorySaver, SqliteSaver, interrupt
from actorgraph.testing import GatedSaver
from tests.support.gates import Box, Turnstile, patient_group
from tests.support.graphs import ab, at, chain, count, in_a_row, writer

pytestmark = pytest.mark.every_saver

RUNS = 20


async def race(graph, given, runs=RUNS, **options) -> list[Box]:
    """Many calls on one thread at once."""
    boxes = [Box() for _ in range(runs)]
    async with patient_group() as group:
        for n, box in enumerate(boxes):
            group.start_soon(lambda b=box, n=n: b.fill(graph.ainvoke, given(n), at(), **options))
    return boxes


class TestTwentyAtOnce:
    @pytest.mark.promise("S068", "C18")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_winners_run_and_losers_do_not_start(self, saver, durability):
        """
        Of 20 runs at once on a thread each wins or gets ConflictError before its first node.
        """
        log: list[str] = []
        graph = chain("a", log, checkpointer=saver)

        boxes = await race(graph, lambda n: {"bar": [str(n)]}, durability=durability)
        winners = [n for n, box in enumerate(boxes) if box.error is None]
        losers = [box.error for box in boxes if box.error is not None]
        final = (await graph.aget_state(at())).values["bar"]

        assert winners
        assert {type(error) for error in losers} <= {ConflictError}
        assert log == ["a"] * len(winners)
        assert sorted(final) == sorted([*map(str, winners), *["a"] * len(winners)])

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_loser_that_tries_again_gets_through(self, saver, durability):
        """
        No update is lost when each run is repeated until it wins.
        """
        graph = chain("a", checkpointer=saver)

        async def stubborn(n: int) -> None:
            while True:
                try:
                    await graph.ainvoke({"bar": [str(n)]}, at(), durability=durability)
                except ConflictError:
                    await anyio.lowlevel.checkpoint()
                else:
                    return

        async with patient_group() as group:
            for n in range(5):
                group.start_soon(stubborn, n)
        final = (await graph.aget_state(at())).values["bar"]

        assert sorted(final) == ["0", "1", "2", "3", "4", *["a"] * 5]

    @pytest.mark.promise("S068", "B4")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_of_two_processes_that_have_read_the_same_one_runs(self, durability, tmp_path):
        """
        Two savers of one file, as of two processes: the later claim is refused while the first
        run is in its node, also in `exit`, where claims move no head.
        """
        log: list[str] = []
        boxes, slow = [Box(), Box()], Turnstile({"bar": ["slow"]})
        path = tmp_path / "x.db"
        async with GatedSaver(SqliteSaver(path)) as one, GatedSaver(SqliteSaver(path)) as two:
            graphs = [chain("a", log, checkpointer=one), in_a_row({"s": slow}, checkpointer=two)]
            async with patient_group(one, two) as group:
                for box, saver, graph in zip(boxes, (one, two), graphs, strict=True):
                    run = partial(graph.ainvoke, {"bar": []}, at(), durability=durability)
                    group.start_soon(box.fill, run)
                    await saver.waiting()
                two.release(None)
                await slow.entered.wait()
                one.release(None)
                await boxes[0].done.wait()
                slow.out.set()

        assert isinstance(boxes[0].error, ConflictError)
        assert (boxes[1].error, boxes[1].value["bar"], log) == (None, ["slow"], [])

    async def test_a_second_run_while_one_is_going_on_is_refused(self, saver):
        """
        While a run holds the thread, another call conflicts and the first one goes on unhurt.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"slow": slow, "b": writer("b")}, checkpointer=saver)
        box = Box()
        async with patient_group() as group:
            group.start_soon(box.fill, graph.ainvoke, {}, at())
            await slow.entered.wait()
            with pytest.raises(ConflictError, match="'t'"):
                await graph.ainvoke({}, at())
            slow.out.set()

        assert slow.calls == 1
        assert box.value["bar"] == ["slow", "b"]

    @pytest.mark.promise("S010")
    async def test_other_threads_are_not_held_up(self, saver):
        """
        A run that waits on one thread doesn't delay runs on others, and each ends as it would
        have alone.
        """
        slow = Turnstile({"bar": ["slow"]})
        waits = in_a_row({"slow": slow, "z": writer("z")}, checkpointer=saver)
        box = Box()
        async with patient_group() as group:
            group.start_soon(box.fill, waits.ainvoke, {"bar": ["1"]}, at("one"))
            await slow.entered.wait()
            result = await ab(saver).ainvoke({"bar": ["2"]}, at("two"))
            slow.out.set()

        assert result == {"foo": "b", "bar": ["2", "a", "b"]}
        assert box.value == {"foo": "z", "bar": ["1", "slow", "z"]}
        assert (await waits.aget_state(at("one"))).values == box.value
        assert (await ab(saver).aget_state(at("two"))).values == result

    def test_blocking_calls_race_the_same_way(self, store):
        """
        From threads, too, each call wins or conflicts, and every winner's update is there.
        """
        log: list[str] = []
        errors: list[BaseException] = []
        with store.saver() as saver:
            graph = chain("a", log, checkpointer=saver)

            def run() -> None:
                try:
                    graph.invoke({"bar": ["x"]}, at())
                except ConflictError as error:
                    errors.append(error)

            threads = [threading.Thread(target=run) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            final = graph.get_state(at()).values["bar"]

        assert len(log) == 10 - len(errors) >= 1
        assert final.count("a") == final.count("x") == len(log)


def asking():
    """A node that asks a question, and writes its answer."""
    calls: list[str] = []

    async def ask(state):
        calls.append("asked")
        answer = interrupt("go on?")
        calls.append(answer)
        return {"bar": [answer]}

    return ask, calls


class TestResuming:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_one_answer_wins(self, saver, durability):
        """
        Of 20 answers at once to one question one is taken, the others get AlreadyResumed.
        """
        ask, calls = asking()
        graph = in_a_row({"ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())

        boxes = await race(graph, lambda n: Command(resume=str(n)), durability=durability)
        (winner,) = [n for n, box in enumerate(boxes) if box.error is None]

        assert {type(b.error) for b in boxes if b.error} == {AlreadyResumed}
        assert calls == ["asked", "asked", str(winner)]
        assert boxes[winner].value["bar"] == [str(winner)]

    async def test_an_answer_after_the_answer_is_refused(self, saver):
        """
        A question that has been answered takes no second answer..
        """
        ask, calls = asking()
        graph = in_a_row({"ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())
        await graph.ainvoke(Command(resume="yes"), at())

        with pytest.raises(AlreadyResumed):
            await graph.ainvoke(Command(resume="no"), at())

        assert calls == ["asked", "asked", "yes"]


class TestDeleting:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_deleted_thread_stays_deleted(self, saver, durability):
        """
        A thread deleted during a run is not brought back by it; the run gets ConflictError.
        """
        log: list[str] = []
        slow = Turnstile({"bar": ["slow"]})
        nodes = {"a": writer("a", log), "slow": slow, "b": writer("b", log)}
        graph = in_a_row(nodes, checkpointer=saver)
        box = Box()
        async with patient_group() as group:
            group.start_soon(lambda: box.fill(graph.ainvoke, {}, at(), durability=durability))
            await slow.entered.wait()
            await saver.adelete_thread("t")
            slow.out.set()

        assert isinstance(box.error, ConflictError)
        assert "deleted" in str(box.error)
        assert await count(graph, at()) == 0
        if durability == "sync":
            assert log == ["a"]

    @pytest.mark.promise("S111")
    async def test_a_deleted_thread_can_be_used_again(self, saver):
        """
        After a delete the thread's name starts from nothing.
        """
        graph = ab(saver)
        await graph.ainvoke({"bar": ["old"]}, at())

        await saver.adelete_thread("t")
        result = await graph.ainvoke({"bar": ["new"]}, at())

        assert result["bar"] == ["new", "a", "b"]
        assert await count(graph, at()) == 4

    @pytest.mark.promise("S111", "S112")
    async def test_deleting_one_thread_leaves_the_others(self, saver):
        """
        A delete touches one thread; an unknown one is ignored.
        """
        graph = ab(saver)
        for thread in ("one", "two"):
            await graph.ainvoke({}, at(thread))

        await saver.adelete_thread("one")
        await saver.adelete_thread("unknown")

        assert await count(graph, at("one")) == 0
        assert await count(graph, at("two")) == 4


class TestCancelled:
    async def test_a_cancelled_run_frees_the_thread(self, saver):
        """
        After a cancellation the thread takes a new run at once, and what was done is stored.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=saver)
        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, at())
            await slow.entered.wait()
            group.cancel_scope.cancel()
        slow.out.set()
        result = await graph.ainvoke(None, at())

        assert slow.calls == 2
        assert slow.closed == 2
        assert result["bar"] == ["a", "slow"]

    @pytest.mark.langgraph("F-C15", "L46")
    async def test_cancelling_waits_until_what_was_done_is_stored(self):
        """
        A cancelled call leaves only when its last save is acknowledged.
        """
        left: list[str] = []
        slow = Turnstile()
        async with GatedSaver(InMemorySaver(), is_open=True) as saver:
            graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=saver)
            async with patient_group(saver) as group:

                async def run() -> None:
                    try:
                        await graph.ainvoke({}, at(), durability="exit")
                    finally:
                        left.append("left")

                group.start_soon(run)
                await slow.entered.wait()
                saver.hold()
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    (farewell,) = await saver.waiting()
                    assert (left, farewell.ends) == ([], "cancelled")
                    saver.release(None)
            found = await graph.aget_state(at())

        assert left == ["left"]
        assert (found.values, found.next) == ({"foo": "a", "bar": ["a"]}, ("slow",))
