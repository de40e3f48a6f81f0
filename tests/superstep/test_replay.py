"""Time travel as decisions: what a branch takes over from the checkpoint that it begins at."""

import pytest

from actorgraph.errors import AlreadyResumed, UnknownInterruptError
from actorgraph.values.commands import Command
from actorgraph.values.run import Save, Succeeded
from tests.superstep.script import Script, Store, chain, only, rows
from tests.superstep.threads import ASYNC, EXIT, PAIR, SYNC, State, again, thread


def old_question(*, answered: bool = True) -> tuple[Store, str]:
    """A thread on which b asked and a had finished, and which has gone on since; b's question."""
    store = thread("b", finished=("a",))
    asked = next(e for e in store.ledger if e.index == -3).writes[0][1][0].id
    if answered:
        run = again(store, Command(resume="first"))
        run.finish("b", log=["b"])
    else:
        run = again(store, {"text": "new"})
    run.saved()
    run.cancel()
    for name in run.names:
        run.stop(name)
    run.saved()
    return store, asked


AT = 1
"""Where the pair's tasks are due: the second checkpoint, after the input's."""


def branch(store: Store, given: object = None, *, at: int = AT, mode: object = SYNC) -> Script:
    """A run from that checkpoint, its claim acknowledged."""
    run = Script(PAIR, mode, store=store)
    run.begin(given, at=at)
    run.saved()
    return run


class TestABranch:
    @pytest.mark.promise("C9")
    @pytest.mark.langgraph("F-G7", "L69")
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_it_begins_with_one_marker_below_the_old_checkpoint(self, mode):
        """
        The marker is stored with the claim: its parent is the addressed checkpoint, its step one
        more, its state the same.
        """
        store, _ = old_question()
        old, head = list(store.points)[AT], store.head
        (save, *_) = branch(store, mode=mode).sent
        (marker,) = save.checkpoints

        assert (marker.parent, marker.step, marker.source) == (old, 1, "fork")
        assert (save.head, marker.next) == (head, ("a", "b"))
        assert save.claim is not None
        assert save.claim.head == head

    @pytest.mark.langgraph("F-E13", "F-G7")
    def test_exit_stores_the_marker_only_for_answers(self):
        """
        An exit run's one row at its end hangs on the old checkpoint; answers need their base.
        """
        store, asked = old_question()
        (claim, *_) = branch(store, mode=EXIT).sent
        answered, _ = old_question()
        (save, *_) = branch(answered, Command(resume={asked: "other"}), mode=EXIT).sent

        assert (claim.checkpoints, claim.claim is None) == ((), False)
        assert [point.source for point in save.checkpoints] == ["fork"]

    @pytest.mark.langgraph("F-G7", "L67")
    def test_finished_tasks_run_again(self):
        """
        The ledger beside the old checkpoint is not handed back: it belongs to its other child.
        """
        store, _ = old_question()
        run = branch(store)

        assert run.names == ["a", "b"]
        assert [t.answers for t in run.running.values()] == [(), ()]
        assert run.state.values.get("log", []) == []

    @pytest.mark.promise("C7")
    @pytest.mark.langgraph("F-G9", "L65", "L67")
    def test_at_the_head_nothing_branches(self):
        """
        None with the head's own id is a plain resume: finished tasks are handed back.
        """
        run = branch(thread("b", finished=("a",)))

        assert run.names == ["b"]
        assert run.sent[0].checkpoints == ()

    @pytest.mark.langgraph("F-G8", "L49")
    def test_a_finished_checkpoint_runs_nothing_and_writes_nothing(self):
        """
        Replaying an end gives that end's values.
        """
        store = Store()
        plan, nodes = chain(State, "a"), {"a": lambda s: {"log": [s["text"]]}}
        for text in "xy":
            Script(plan, SYNC, store=store).play({"text": text}, nodes)
        run = Script(plan, SYNC, store=store)
        run.begin(None, at=2)

        assert run.outcome == Succeeded({"text": "x", "log": ["x"]})
        assert run.sent == []

    @pytest.mark.langgraph("F-G11", "L66")
    def test_an_update_that_is_the_head_is_replayed_in_place(self):
        """
        A marker without a child is itself the branch: no second one is made.
        """
        store, _ = old_question()
        first = branch(store)
        for name in ("a", "b"):
            first.fail(name, ValueError(name)) if name == "a" else first.stop(name)
        first.saved()
        run = branch(store, at=-1)

        assert run.names == ["a", "b"]
        assert run.sent[0].checkpoints == ()

    @pytest.mark.langgraph("F-C7")
    def test_writes_of_accepted_commands_are_part_of_the_checkpoint(self):
        """
        Values that a Command changed on top of a checkpoint hold for its replays too.
        """
        store = thread("b", finished=("a",))
        run = again(store, Command(resume="yes", update={"text": "edited"}))
        run.finish("b", log=["b"])
        run.saved()
        run.cancel()
        run.stop("c")
        run.saved()

        assert branch(store).state.values["text"] == "edited"

    @pytest.mark.langgraph("L69", "F-G11")
    def test_a_new_input_at_an_old_checkpoint_branches_there(self):
        """
        In exit mode, too, the branch's parent is the addressed checkpoint, not the head.
        """
        store, _ = old_question()
        run = branch(store, {"text": "other"}, mode=EXIT)
        run.cancel()
        for name in run.names:
            run.stop(name)
        run.saved()

        assert list(store.points.values())[-1].parent == list(store.points)[AT]


class TestACommand:
    @pytest.mark.langgraph("L68", "F-C7")
    def test_its_writes_are_in_the_marker(self):
        """
        Nothing is stored beside the old checkpoint, which has other children.
        """
        store, _ = old_question()
        run = Script(PAIR, SYNC, store=store)
        (save,) = only(Save, run.begin(Command(update={"text": "new"}, goto="c"), at=AT))

        assert save.ledger == ()
        assert save.checkpoints[0].changed["text"] == "new"
        assert save.checkpoints[0].next == ("a", "b", "c")

    @pytest.mark.promise("S167")
    @pytest.mark.langgraph("F-G10", "L68")
    @pytest.mark.parametrize("answered", [True, False])
    @pytest.mark.parametrize("by_id", [True, False])
    def test_its_answer_goes_to_the_question_of_that_checkpoint(self, answered, by_id):
        """
        The question that the checkpoint's record shows is answered anew, on the branch, and the
        answer is stored beside the marker.
        """
        store, asked = old_question(answered=answered)
        run = branch(store, Command(resume={asked: "second"} if by_id else "second"))
        (save, *_) = run.sent

        assert {t.name: t.answers for t in run.running.values()} == {"a": (), "b": ("second",)}
        assert rows(save) == [("b", -4)]
        assert save.ledger[0].base == save.checkpoints[0].id
        assert again(store, None).task("b").answers == ("second",)

    @pytest.mark.promise("S167")
    @pytest.mark.langgraph("F-G10")
    def test_answers_to_earlier_questions_are_kept(self):
        """
        Of a task that had asked twice the second question is answered anew, the first stays.
        """
        store = thread("b", finished=("a",))
        run = again(store, Command(resume="1"))
        run.ask("b", "and?")
        run.saved()
        run = again(store, Command(resume="2"))
        run.finish("b", log=["b"])
        run.saved()
        run.cancel()
        run.stop("c")
        run.saved()

        assert branch(store, Command(resume="other")).task("b").answers == ("1", "other")

    @pytest.mark.langgraph("L51")
    def test_without_a_question_it_waits_for_one(self):
        """
        A bare answer where no task had asked goes to the first that asks on the branch.
        """
        store = thread(finished=("a",))
        again(store, {"text": "new"})
        run = branch(store, Command(resume="early"))

        assert run.state.unaddressed_answer == ["early"]
        assert rows(run.sent[0]) == [("", -4)]

    @pytest.mark.langgraph("L56")
    def test_one_answer_for_two_questions_is_refused(self):
        """
        With two questions in the record the ids must be given.
        """
        store = thread("a", "b")
        again(store, {"text": "new"})
        run = Script(PAIR, SYNC, store=store)

        with pytest.raises(UnknownInterruptError, match="multiple pending") as refused:
            run.begin(Command(resume="yes"), at=AT)
        assert (refused.value.reason, len(refused.value.pending_ids)) == ("ambiguous", 2)
        assert run.state.sent == 0

    @pytest.mark.langgraph("F-F10")
    def test_an_id_of_another_checkpoint_is_refused(self):
        """
        An answer by an id that this checkpoint's tasks never asked under fits nothing.
        """
        store, asked = old_question()
        run = Script(PAIR, SYNC, store=store)

        with pytest.raises(UnknownInterruptError, match="Unknown interrupt 0000") as refused:
            run.begin(Command(resume={"0" * 32: "x"}), at=AT)
        assert refused.value.pending_ids == (asked,)

    @pytest.mark.promise("S167")
    def test_an_answer_at_a_finished_checkpoint_is_refused(self):
        """
        Where nothing is due no task can take an answer.
        """
        store = Store()
        plan, nodes = chain(State, "a"), {"a": lambda s: {"log": [s["text"]]}}
        for text in "xy":
            Script(plan, SYNC, store=store).play({"text": text}, nodes)

        with pytest.raises(AlreadyResumed):
            Script(plan, SYNC, store=store).begin(Command(resume="x"), at=2)

    @pytest.mark.langgraph("L112", "L55")
    @pytest.mark.parametrize("command", [Command(), Command(resume={})])
    def test_an_empty_one_is_a_plain_replay(self, command):
        """
        A Command that says nothing is like None.
        """
        store, _ = old_question()

        assert branch(store, command).names == ["a", "b"]
