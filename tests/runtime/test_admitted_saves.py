"""Which requests the persistence actor admits: one run per thread, none on top of a lost save."""

from collections.abc import Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from actorgraph import InMemorySaver
from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointError,
    CheckpointSizeError,
    ConflictError,
    DrainTimeoutError,
    SaverBrokenError,
    SaverClosedError,
)
from actorgraph.runtime.saver.persistence import PersistenceActor, Receipts
from actorgraph.testing import FaultPlan, FaultySaver, GatedSaver
from actorgraph.values.commits import CheckpointRow, Claim, Commit, Committed, DeleteThread, Request
from actorgraph.values.run import Saved, SaveFailed
from tests.runtime.saves import (
    HEAD,
    OTHER,
    RUN,
    THIRD,
    Answers,
    Sink,
    ask,
    full,
    immediate,
    save,
    serving,
)
from tests.support.gates import patient_group, settled


class TestAdmission:
    def test_a_thread_has_one_active_run(self):
        """
        A second run's claim is refused without asking the store until the first one leaves.
        """
        actor = immediate()
        assert ask(actor, save()) == 1

        error = ask(actor, save(run=OTHER))

        assert type(error) is ConflictError
        assert error.what == "thread 't' has an active run in this process"
        assert error.do == "wait for that run to end, or use another thread_id"
        assert ask(actor, save(thread="u", run=THIRD)) == 1

    def test_an_interrupt_has_one_answer_at_a_time(self):
        """
        A second answer to an interrupt is refused with an error that programs can handle apart.
        """
        actor = immediate()
        assert ask(actor, save()) == 1

        error = ask(actor, save(run=OTHER, claim=Claim(None, "sync", resumes="i")))

        assert type(error) is AlreadyResumedError
        assert error.what == "another run is answering the interrupt of thread 't'"
        assert error.do == "wait for that run; get_state(config) shows how it went on"

    def test_a_run_may_claim_again(self):
        """
        A run that has the thread may claim it again.
        """
        actor = immediate()

        assert [ask(actor, save()), ask(actor, save())] == [1, 1]

    def test_the_last_save_of_a_run_frees_its_thread(self):
        """
        A run that ends leaves the thread to the next one; a save before its end does not.
        """
        actor = immediate()
        ask(actor, save())
        ask(actor, save(2))
        assert isinstance(ask(actor, save(run=OTHER)), ConflictError)
        assert ask(actor, save(2, ends="success")) == 2

        assert ask(actor, save(run=THIRD)) == 1

    def test_the_end_of_another_run_frees_nothing(self):
        """
        A thread is freed by its own run alone.
        """
        actor = immediate()
        ask(actor, save())
        ask(actor, save(2, run=OTHER, ends="success"))
        actor.forget("t", OTHER)

        assert "active run" in ask(actor, save(run=OTHER)).what
        actor.forget("t", RUN)
        actor.forget("t", RUN)
        assert actor.statistics().active_runs == 0

    def test_requests_of_no_run_pass(self):
        """
        Updates and removals from outside pass a claimed thread, even with a claim of their own.
        """
        actor = immediate()
        ask(actor, save())

        assert ask(actor, save(1, run=None)) == 1
        assert ask(actor, DeleteThread("t")) == 0

    def test_a_refused_claim_frees_the_thread_before_its_run_hears(self):
        """
        A run may be started again inside the answer that its save failed.
        """
        actor = immediate(1)
        again = Answers()
        seen: list[Saved | SaveFailed] = []

        def deliver(answer: Saved | SaveFailed) -> None:
            seen.append(answer)
            actor.post(save(run=OTHER), again.receipts)

        actor.post(save(), Receipts(deliver))

        assert [type(answer) for answer in seen] == [SaveFailed]
        assert again == [1]

    def test_the_first_lost_save_of_a_place_is_the_one_reported(self):
        """
        Saves of a subgraph are refused with the first error of the run that they build on.
        """
        actor = immediate()
        actor.mark_failed(RUN, "", full())
        actor.mark_failed(RUN, "", ConflictError("later", do="wait"))

        assert ask(actor, save(3, namespace="a:1")).what == "disk full"

    @pytest.mark.parametrize(
        ("namespace", "refused"),
        [("a:1|b:2", True), ("a:1|b:2|c:3", True), ("a:12", False), ("a:1", False), ("", False)],
    )
    def test_saves_below_a_lost_one_are_refused(self, namespace, refused):
        """
        A subgraph's lost save takes along its own subgraphs, not neighbours with a like name.
        """
        actor = immediate()
        actor.mark_failed(RUN, "z:9", ConflictError("elsewhere", do="wait"))
        actor.mark_failed(RUN, "a:1", full())
        ask(actor, save())

        answer = ask(actor, save(2, namespace=namespace))

        assert (answer == 2) is not refused
        assert not refused or answer.what == "disk full"


class TestWatch:
    def test_a_request_is_checked_in_the_callers_context(self):
        """
        A saver's watch sees each request where it was made, and its error is the answer.
        """
        principal: ContextVar[str] = ContextVar("principal", default="none")
        seen: list[tuple[Request, str]] = []

        def handed_over(request: Request) -> CheckpointError | None:
            seen.append((request, principal.get()))
            too_large = isinstance(request, Commit) and request.size > 10
            return CheckpointSizeError("too large", do="store less") if too_large else None

        saver: Any = InMemorySaver()
        saver.watch = SimpleNamespace(handed_over=handed_over)
        actor = PersistenceActor(saver)
        principal.set("caller")

        assert ask(actor, save()) == 1
        assert ask(actor, save(2, size=11)).what == "too large"
        assert seen == [(save(), "caller"), (save(2, size=11), "caller")]
        assert (actor.statistics().messages, actor.statistics().refused) == (1, 1)


class TestImmediate:
    def test_each_save_is_answered_inside_its_call(self):
        """
        A saver that never waits stores in `post`; its figures count batches of one.
        """
        actor = immediate()
        answers = Answers()
        for number in (1, 2, 3):
            actor.post(save(number), answers.receipts)

        figures = actor.statistics()

        assert answers == [1, 2, 3]
        assert (figures.messages, figures.commits, figures.refused) == (3, 3, 0)
        assert (figures.batch_size_mean, figures.batch_size_max) == (1.0, 1)
        assert (figures.active_runs, figures.waiting, figures.age_s) == (1, 0, 0.0)
        assert figures.commits_s.total == figures.lags_s.total == figures.commit_s == 0.0

    def test_a_refused_save_gets_the_savers_error(self):
        """
        The store's refusal of one request is the answer, and counts as refused.
        """
        actor = immediate()

        error = ask(actor, save(claim=Claim(HEAD, "sync")))

        assert "thread 't' has moved on to checkpoint none" in error.what
        assert actor.statistics().refused == 1

    def test_an_unforeseen_error_is_the_answer(self):
        """
        Anything that a saver raises goes to the run; the next request is tried again.
        """
        actor = immediate(1, lambda: LookupError("foreign"))

        assert str(ask(actor, save())) == "foreign"
        assert ask(actor, save(run=OTHER)) == 1

    async def test_the_outcome_is_returned_to_callers_outside_a_run(self):
        """
        `store` returns the store's outcome of each request, with its sequence.
        """
        row = CheckpointRow(HEAD, None, 1, "loop", RUN, "[]", "{}", "{}")

        outcomes = await immediate().store(save(checkpoints=(row,)), DeleteThread("u"))

        assert outcomes == [Committed(sequence=1), Committed()]

    def test_a_broken_saver_is_not_asked_again(self):
        """
        After an unknown outcome each later request gets that error, without reaching the saver.
        """
        broken = SaverBrokenError("unknown outcome", do="reopen")
        saver = FaultySaver(InMemorySaver(), FaultPlan(1, error=lambda: broken, lasting=False))
        actor = PersistenceActor(saver)
        actor.check_open()

        assert [ask(actor, save()), ask(actor, save(thread="u"))] == [broken, broken]
        assert saver.plan.operations == ["commit"]
        with pytest.raises(SaverBrokenError, match="unknown outcome"):
            actor.check_open()


class TestStopping:
    async def test_a_request_after_the_end_is_refused(self):
        """
        Requests after `stop` get its error, whole text and advice, without a number that is owed.
        """
        actor = PersistenceActor(Sink())
        async with serving(actor):
            pass

        answers = Answers()
        actor.post(save(), answers.receipts)

        (error,) = answers
        assert type(error) is SaverClosedError
        assert error.what == "the saver has been closed"
        assert error.do == "use it inside its `with` block, or make a new one"
        assert (actor.waiting, actor.waiting_bytes) == (0, 0)
        with pytest.raises(SaverClosedError):
            actor.check_open()

    async def test_the_first_reason_stays(self):
        """
        The error given to the first `stop` is the one that later requests get.
        """
        actor = PersistenceActor(Sink())
        actor.stop(full())
        actor.stop()
        actor.stop(ConflictError("later", do="wait"))

        with anyio.fail_after(5):
            await actor.serve()

        assert ask(actor, save()).what == "disk full"

    async def test_requests_before_a_stop_are_stored(self):
        """
        Waiting requests are stored before the actor ends, also those between two stops.
        """
        saver = Sink()
        actor, answers = PersistenceActor(saver), Answers()
        actor.post(save(), answers.receipts)
        actor.stop()
        actor.stop()

        with anyio.fail_after(5):
            await actor.serve()

        assert answers == [1]
        assert (len(saver.batches), actor.waiting, actor.waiting_bytes) == (1, 0, 0)

    async def test_a_drains_deadline_refuses_everything_that_waits(self):
        """
        Requests that the deadline leaves unstored get an error with their number and thread.
        """
        actor, answers = PersistenceActor(Sink()), Answers()
        outside = Answers()
        actor.post(save(3, size=40), answers.receipts)
        actor.post(DeleteThread("u"), outside.receipts)
        assert (actor.waiting, actor.waiting_bytes) == (2, 40)

        count = actor.withdraw()

        assert count == 2
        assert [type(error) for error in (*answers, *outside)] == [DrainTimeoutError] * 2
        assert answers[0].what == (
            "save 3 of thread 't' was not stored before the drain's deadline"
        )
        assert outside[0].what == (
            "save 0 of thread 'u' was not stored before the drain's deadline"
        )
        assert answers[0].do == (
            "raise drain_timeout_s; ainvoke(None, config) resumes from the last stored checkpoint"
        )
        assert (actor.waiting, actor.waiting_bytes, actor.statistics().refused) == (0, 0, 2)

    @pytest.mark.parametrize("given", [True, False], ids=["its error", "no error"])
    async def test_a_batch_in_flight_is_refused_too(self, given):
        """
        When the actor dies, requests that it was committing are answered, and not twice.
        """

        class Death(BaseException):
            pass

        class Deadly(Sink):
            async def commit(self, batch: Sequence[Request]) -> list[Any]:
                raise Death

        actor, answers, later = PersistenceActor(Deadly()), Answers(), Answers()
        error = full() if given else None
        actor.post(save(2), answers.receipts)
        with pytest.raises(Death):
            await actor.serve()
        actor.post(save(thread="u"), later.receipts)

        assert [actor.withdraw(error), actor.withdraw(error)] == [1, 0]
        texts = [answer.what for answer in (*answers, *later)]
        assert texts == (
            ["disk full"] * 2
            if given
            else [
                "save 2 of thread 't' was not stored before the drain's deadline",
                "save 1 of thread 'u' was not stored before the drain's deadline",
            ]
        )
        assert actor.statistics().age_s == 0.0

    async def test_a_cancelled_actor_answers_the_batch_in_flight(self):
        """
        Cancelling the actor does not break off a commit: its runs learn that it is durable.
        """
        answers = Answers()
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            actor = PersistenceActor(saver)
            async with anyio.create_task_group() as served:
                served.start_soon(actor.serve)
                actor.post(save(), answers.receipts)
                await saver.waiting()
                served.cancel_scope.cancel()
                group.start_soon(release_later, saver)

        assert answers == [1]


async def release_later(saver: GatedSaver) -> None:
    await settled()
    saver.release(None)
