"""Batches of the persistence actor: bounds, retries, answers, figures, and its log."""

from collections.abc import Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from actorgraph import InMemorySaver
from actorgraph.errors import (
    ConflictError,
    SaverBrokenError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    ThreadMovedError,
)
from actorgraph.runtime.saver.persistence import (
    ALONE_BYTES_MIN,
    ANSWERS_SLICE,
    BATCH_BYTES_MAX,
    BATCH_MESSAGES_MAX,
    RETRIES_MAX,
    PersistenceActor,
    Receipts,
    log_failed_save,
    post_request,
)
from actorgraph.runtime.saver.statistics import Distribution
from actorgraph.testing import FaultySaver, GatedSaver
from actorgraph.values.commits import (
    CheckpointRow,
    Claim,
    CommitOutcome,
    Committed,
    DeleteThread,
    LedgerRow,
    Refused,
    Request,
)
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import AskCancel
from tests.runtime.saves import (
    HEAD,
    NEWER,
    OTHER,
    RUN,
    Answers,
    Sink,
    ask,
    full,
    immediate,
    save,
    serving,
)
from tests.support.gates import Box, patient_group, settled
from tests.support.structlog_setup import configured

__all__ = ["configured"]

SMALL = BATCH_BYTES_MAX // 16


class Clock:
    """A clock that only its test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("actorgraph.runtime.saver.persistence.time", made)
    return made


class TestBatches:
    async def test_a_batch_ends_with_the_request_that_fills_it(self):
        """
        Requests are taken until they have 8 MB together, to the byte.
        """
        saver = Sink()
        actor, answers = PersistenceActor(saver), Answers()
        for size in (*[SMALL] * 15, SMALL - 1, 1, 1, 1):
            actor.post(DeleteSized("t", size), answers.receipts)
        assert actor.waiting_bytes == BATCH_BYTES_MAX + 2
        async with serving(actor):
            await settled()

        assert [len(batch) for batch in saver.batches] == [17, 2]
        assert actor.waiting_bytes == 0

    async def test_a_large_request_is_a_batch_of_its_own(self):
        """
        A request of 1 MB takes no other with it, before or after.
        """
        saver = Sink()
        actor, answers = PersistenceActor(saver), Answers()
        for size in (1, ALONE_BYTES_MIN - 1, ALONE_BYTES_MIN, BATCH_BYTES_MAX, 1):
            actor.post(DeleteSized("t", size), answers.receipts)
        async with serving(actor):
            await settled()

        assert [len(batch) for batch in saver.batches] == [2, 1, 1, 1]

    async def test_an_urgent_request_goes_first_and_alone(self):
        """
        A request to cancel is the next batch, whatever waits.
        """
        saver = Sink()
        actor, answers = PersistenceActor(saver), Answers()
        urgent = AskCancel(RUN, "t", "why")
        for request in (save(), save(thread="u"), urgent):
            actor.post(request, answers.receipts)
        async with serving(actor):
            await settled()

        assert saver.batches == [[urgent], [save(), save(thread="u")]]

    async def test_refused_requests_take_no_place_in_a_batch(self):
        """
        Saves that are not admitted are answered in their turn, and the rest is stored together.
        """
        saver = Sink()
        actor, first, second = PersistenceActor(saver), Answers(), Answers()
        actor.post(save(size=5), first.receipts)
        actor.post(save(run=OTHER, size=ALONE_BYTES_MIN - 1), second.receipts)
        actor.post(save(2, size=5), first.receipts)
        async with serving(actor):
            await settled()

        assert saver.batches == [[save(size=5), save(2, size=5)]]
        assert (first, type(second[0])) == ([2], ConflictError)
        assert actor.waiting_bytes == 0

    async def test_a_long_row_of_refusals_lets_others_run(self):
        """
        Other tasks get a turn after 512 refused requests, and the rest is refused after that.
        """
        saver = Sink()
        actor = PersistenceActor(saver)
        actor.mark_failed(RUN, "", full())
        turns: list[int] = []

        async def watch() -> None:
            while actor.waiting:
                turns.append(actor.statistics().refused)
                await checkpoint()

        for _ in range(2 * BATCH_MESSAGES_MAX + 10):
            actor.post(save(2), Receipts(lambda _: None))
        async with serving(actor), anyio.create_task_group() as group:
            group.start_soon(watch)

        # On trio the watch may have its turn before or after the actor's.
        seen = {*turns} - {0}
        assert seen
        assert seen <= {BATCH_MESSAGES_MAX, 2 * BATCH_MESSAGES_MAX}
        assert (saver.batches, actor.statistics().refused) == ([], 2 * BATCH_MESSAGES_MAX + 10)


class DeleteSized(DeleteThread, frozen=True, gc=False):
    """A request with a size, of no run."""

    size: int = 0


class TestRetries:
    async def test_a_retryable_error_is_tried_three_times(self):
        """
        A batch that the saver could not store for now is sent again at once, three times in all.
        """
        busy = StorageBusyError("locked", do="wait")
        busy.retryable = True
        stored, lost = Sink(busy, busy), Sink(busy, busy, busy)

        outcomes = []
        for saver in (stored, lost):
            async with serving(PersistenceActor(saver)) as actor:
                outcomes.append(await actor.store_each(save()))

        assert RETRIES_MAX == 3
        assert [len(saver.batches) for saver in (stored, lost)] == [3, 3]
        assert outcomes == [[Committed()], [busy]]

    @pytest.mark.parametrize(
        "error", [StorageError("row", do="smaller"), OSError("disk on fire")], ids=["row", "os"]
    )
    async def test_other_errors_are_tried_once(self, error, configured):
        """
        A batch whose error is not retryable is refused at once, all of it, with that error.
        """
        saver = Sink(error)
        with capture_logs() as logs:
            async with serving(PersistenceActor(saver)) as actor:
                outcomes = await actor.store_each(save(), save(thread="u"))
                after = await actor.store_each(save(run=OTHER))

        assert (len(saver.batches), outcomes, after) == (2, [error, error], [Committed()])
        assert logs[0] == {
            "event": "commit.failed",
            "log_level": "error",
            "messages": 2,
            "error": repr(error),
        }


class TestAnswers:
    async def test_a_run_hears_of_what_is_refused_and_what_is_stored(self):
        """
        Each request of a batch gets its own outcome, wherever the refused one is.
        """
        error = ConflictError("moved", do="wait")

        class Choosy(Sink):
            async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
                return [Refused(error) if r.thread_id == "b" else Committed(7) for r in batch]

        heard = {name: Answers() for name in "abc"}
        async with serving(PersistenceActor(Choosy())) as actor:
            for number, (name, answers) in enumerate(heard.items()):
                run = name.encode()
                actor.post(save(number + 2, name, run), answers.receipts)
            await settled()

        assert heard == {"a": [2], "b": [error], "c": [4]}
        assert [a.receipts.stored for a in heard.values()] == [Committed(7), None, Committed(7)]
        assert [a.receipts.failed for a in heard.values()] == [None, error, None]
        assert actor.statistics().refused == 1

    async def test_a_saver_with_too_few_outcomes_acknowledges_nothing(self):
        """
        After fewer outcomes than requests no run is acknowledged: each gets an error that names the
        saver's class.
        """

        class Short(Sink):
            async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
                return [Committed()]

        first, second = Answers(), Answers()
        async with serving(PersistenceActor(Short())) as actor:
            actor.post(save(2), first.receipts)
            actor.post(save(2, run=OTHER), second.receipts)
            await settled()

        assert [type(answer) for answer in (*first, *second)] == [SaverBrokenError] * 2
        assert all("Short.commit() returned 1 answers for 2" in a.what for a in (*first, *second))

    async def test_callers_outside_a_run_get_their_outcomes_in_order(self):
        """
        `store_each` has an outcome or an error for each request, `store` raises the first error.
        """
        error, last = full(), StorageError("row", do="smaller")
        saver = InMemorySaver()
        async with serving(PersistenceActor(FaultySaver(saver, immediate=False))) as actor:
            actor.mark_failed(RUN, "", error)
            actor.mark_failed(OTHER, "", last)
            requests = DeleteThread("a"), save(2), DeleteThread("b"), save(2, run=OTHER)
            outcomes = await actor.store_each(*requests)
            with pytest.raises(StorageFullError, match="disk full") as raised:
                await actor.store(*requests)
            stored = await actor.store(DeleteThread("a"), DeleteThread("b"))

        assert outcomes == [Committed(), error, Committed(), last]
        assert any("row" in note for note in raised.value.__notes__)
        assert stored == [Committed(), Committed()]

    async def test_a_cancelled_caller_is_cancelled_after_the_answers(self):
        """
        Requests of a caller that is cancelled have taken effect, or not, when it goes on.
        """
        done = Box()
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            group.start_soon(actor.serve)
            async with anyio.create_task_group() as callers:
                callers.start_soon(done.fill, actor.store, DeleteThread("a"), DeleteThread("b"))
                await saver.waiting()
                callers.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await settled()
                over = done.done.is_set()
                saver.release(None)
            actor.stop()

        assert not over
        assert [len(batch) for batch in saver.batches] == [2]

    async def test_a_request_may_be_awaited_later(self):
        """
        `post_request` hands over at once; its function waits, and raises a refusal.
        """
        async with serving(PersistenceActor(Sink(Committed(), full()))) as actor:
            stored = post_request(actor, save(2))
            await stored()
            refused = post_request(actor, save(3))
            with pytest.raises(StorageFullError, match="disk full"):
                await refused()

    @pytest.mark.parametrize(
        ("takes_s", "answers"),
        [(0.0, ANSWERS_SLICE), (0.0015, 2), (0.0021, 1)],
        ids=["by number", "by time", "slow ones"],
    )
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio has no order of turns
    async def test_others_get_a_turn_between_answers(self, takes_s, answers, clock):
        """
        Runs that continue inside their answers hold up others for 8 answers or 2 ms, no longer.
        """
        heard: list[int] = []
        turns: list[int] = []

        def deliver(answer: Saved | SaveFailed) -> None:
            heard.append(answer.number)
            clock.now += takes_s

        async def watch() -> None:
            while len(heard) < 3 * ANSWERS_SLICE:
                await checkpoint()
                turns.append(len(heard))

        actor = PersistenceActor(Sink())
        for number in range(3 * ANSWERS_SLICE):
            actor.post(save(2, f"t{number}", b"%d" % number), Receipts(deliver))
        async with serving(actor), anyio.create_task_group() as group:
            group.start_soon(watch)

        assert sorted({0, *turns}) == list(range(0, 3 * ANSWERS_SLICE + 1, answers))


class TestFigures:
    async def test_times_and_sizes_of_batches(self, clock):
        """
        Figures have the time of each batch, the wait of its oldest request, and their bins.
        """
        saver = Sink(takes_s=[0.04, 2.0], clock=clock)
        actor = PersistenceActor(saver)
        for number in range(3):
            actor.post(save(2, f"t{number}", b"%d" % number), Receipts(lambda _: None))
            clock.now += 0.25
        async with serving(actor):
            await settled()
            first = actor.statistics()
            actor.post(save(2), Receipts(lambda _: None))
            await settled()
        after = actor.statistics()

        assert (first.messages, first.commits, first.batch_size_mean) == (3, 1, 3.0)
        assert (first.last_s, first.commit_s) == pytest.approx((0.04, 0.04))
        assert (after.messages, after.commits, after.refused, after.waiting) == (4, 2, 0, 0)
        assert (after.batch_size_mean, after.batch_size_max, after.age_s) == (2.0, 3, 0.0)
        assert (after.last_s, after.commit_s) == pytest.approx((2.0, 2.04))
        assert bins(after.commits_s) == {0.05: 1, 2.5: 1}
        assert bins(after.lags_s) == {1.0: 1, 2.5: 1}
        assert bins(after.sizes) == {1: 1, 4: 1}
        totals = [each.total for each in (after.commits_s, after.lags_s, after.sizes)]
        assert totals == pytest.approx([2.04, 2.79, 4])

    async def test_the_age_of_the_batch_in_flight(self, clock):
        """
        A commit that hangs shows in its age, counted from the hand-over of its oldest request.
        """
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            group.start_soon(actor.serve)
            for thread in "tu":
                actor.post(DeleteThread(thread), Receipts(lambda _: None))
                clock.now += 1.5
            await saver.waiting()
            during = actor.statistics()
            actor.stop()

        assert (during.age_s, during.waiting, during.messages) == (3.0, 0, 0)
        assert actor.statistics().age_s == 0.0

    def test_an_actor_that_did_nothing(self):
        """
        Before the first batch all figures are 0.
        """
        figures = PersistenceActor(Sink()).statistics()

        assert (figures.batch_size_mean, figures.batch_size_max, figures.commit_s) == (0.0, 0, 0.0)
        assert (figures.messages, figures.commits, figures.refused, figures.last_s) == (0, 0, 0, 0)


def bins(of: Distribution) -> dict[float, int]:
    """The bins that are not empty, by their upper bound."""
    return {bound: count for bound, count in zip(of.bounds, of.counts, strict=False) if count}


NEWEST = CheckpointRow(NEWER, HEAD, 4, "loop", RUN, "[]", "{}", "{}")
OLDER = CheckpointRow(HEAD, None, 3, "loop", RUN, "[]", "{}", "{}")
WRITES = tuple(LedgerRow(base, b"t", "", 0, 0, b"") for base in (HEAD, HEAD, NEWER))
RUN_TEXT = "72727272-7272-7272-7272-727272727272"
NEWER_TEXT = "02020202-0202-0202-0202-020202020202"


@pytest.mark.usefixtures("configured")
class TestLog:
    @pytest.mark.parametrize(
        ("request_", "fields"),
        [
            (DeleteThread("t"), {}),
            (save(2, run=None, namespace="a:1"), {"checkpoint_ns": "a:1"}),
            (save(2), {"checkpoint_ns": "", "run_id": RUN_TEXT}),
            (
                save(2, ledger=WRITES),
                {"checkpoint_ns": "", "run_id": RUN_TEXT, "checkpoint_id": NEWER_TEXT},
            ),
            (
                save(2, ledger=WRITES[:1], checkpoints=(OLDER, NEWEST)),
                {"checkpoint_ns": "", "run_id": RUN_TEXT, "checkpoint_id": NEWER_TEXT, "step": 4},
            ),
        ],
        ids=["no run", "an update", "a claim", "writes", "checkpoints"],
    )
    def test_a_failed_save_is_logged_with_its_place(self, request_, fields):
        """
        The log's entry of a failed save has the ids by which an operator finds it.
        """
        with capture_logs() as logs:
            log_failed_save(request_, full())

        common = {"event": "save.failed", "log_level": "error", "thread_id": "t"}
        assert logs == [common | {"error": "disk full"} | fields]

    def test_a_save_that_goes_elsewhere_is_logged_as_information(self):
        """
        A save whose thread is in another database is repeated there: its entry has the level info.
        """
        with capture_logs() as logs:
            log_failed_save(save(2), ThreadMovedError("moved", do="read the map again"))

        assert [(entry["event"], entry["log_level"]) for entry in logs] == [("save.failed", "info")]

    def test_each_run_is_logged_once_and_only_for_the_storage(self):
        """
        The first failure of a run by the storage has an entry; later ones and conflicts have none.
        """
        actor, answers = immediate(1), Answers()

        with capture_logs() as logs:
            actor.post(save(1), answers.receipts)
            actor.post(save(2), answers.receipts)
            ask(actor, save(run=OTHER, claim=Claim(HEAD, "sync")))

        assert [entry["event"] for entry in logs] == ["commit.failed", "save.failed"]
        assert [answer.what for answer in answers] == ["disk full"]
        assert actor.statistics().refused == 3
