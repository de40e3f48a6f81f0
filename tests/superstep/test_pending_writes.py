"""The ledger beside a checkpoint: tasks that have finished, asked, failed, been answered."""

from typing import Any, TypedDict

import msgspec
import pytest

from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.pending_writes import Attempt, attempts
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.constants import (
    ERROR,
    ERROR_SOURCE_NODE,
    INTERRUPT,
    NO_WRITES,
    NULL_TASK,
    RESUME,
    ROUTED,
)
from actorgraph.values.ids import TaskId, interrupt_id
from actorgraph.values.policies import Durability
from actorgraph.values.run import Task
from tests.superstep.script import Script, Store, chain

PATH = ("__pregel_pull", "a")
Q1, Q2 = Interrupt("one?", "1" * 32), Interrupt("two?", "2" * 32)


def own(*writes: Any, index: int = 0) -> StoredWrite:
    return StoredWrite("t", PATH, index, 0, writes or ((NO_WRITES, None),))


def asked(generation: int, *questions: Interrupt) -> StoredWrite:
    return StoredWrite("t", PATH, -3, generation, ((INTERRUPT, list(questions)),))


def answered(generation: int, *answers: Any) -> StoredWrite:
    return StoredWrite("t", PATH, -4, generation, ((RESUME, list(answers)),))


def failed(generation: int, text: str) -> StoredWrite:
    return StoredWrite("t", PATH, -1, generation, ((ERROR, text),))


LEDGERS: list[tuple[list[StoredWrite], Attempt]] = [
    ([own(("log", 1))], Attempt(PATH, (("log", 1),))),
    ([own()], Attempt(PATH, ())),
    ([own(("log", 1)), own(("log", 2), index=1)], Attempt(PATH, (("log", 1), ("log", 2)))),
    ([failed(1, "no")], Attempt(PATH, error="no")),
    ([failed(1, "no"), failed(2, "worse")], Attempt(PATH, error="worse")),
    ([failed(1, "no"), own(("log", 1))], Attempt(PATH, (("log", 1),), error="no")),
    ([asked(1, Q1)], Attempt(PATH, interrupts=(Q1,), waiting=True)),
    ([asked(1, Q1), answered(2, "a")], Attempt(PATH, interrupts=(Q1,), answers=("a",))),
    (
        [asked(1, Q1), answered(2, "a"), asked(2, Q2)],
        Attempt(PATH, interrupts=(Q2,), waiting=True, answers=("a",)),
    ),
    (
        [asked(1, Q1), answered(2, "a"), asked(2, Q2), answered(3, "a", "b")],
        Attempt(PATH, interrupts=(Q2,), answers=("a", "b")),
    ),
    (
        [asked(1, Q1), answered(2, "a"), own(("log", 1))],
        Attempt(PATH, (("log", 1),), interrupts=(Q1,), answers=("a",)),
    ),
    (
        [asked(1, Q1), answered(2, "a"), failed(2, "no")],
        Attempt(PATH, error="no", interrupts=(Q1,), failed_since=True, answers=("a",)),
    ),
    (
        [failed(1, "no"), asked(1, Q1)],
        Attempt(PATH, error="no", interrupts=(Q1,), waiting=True),
    ),
    (
        [failed(1, "no"), asked(2, Q1)],
        Attempt(PATH, error="no", interrupts=(Q1,), waiting=True),
    ),
]


@pytest.mark.promise("L35", "L53")
@pytest.mark.parametrize(("ledger", "attempt"), LEDGERS)
@pytest.mark.parametrize("turn", [1, -1])
def test_the_newest_generation_of_each_kind_counts(ledger, attempt, turn):
    """
    Own writes mean finished; of errors, questions and answers the newest generation counts, in
    whatever order the rows come; a question waits until a later generation answers it.
    """
    shown = ledger if len([r for r in ledger if r.index >= 0]) > 1 else ledger[::turn]

    assert attempts(shown) == {"t": attempt}


def test_rows_without_a_task_are_not_attempts():
    """
    A Command's writes and an early answer are stored under the null task.
    """
    rows = [
        StoredWrite(NULL_TASK, (), 1, 0, (("text", "b"),)),
        StoredWrite(NULL_TASK, (), 0, 0, (("text", "a"),)),
        StoredWrite(NULL_TASK, (), -4, 1, ((RESUME, ["early"]),)),
    ]

    assert attempts(rows) == {}
    assert pending.accepted(rows) == [(("text", "a"),), (("text", "b"),)]
    assert pending.unaddressed_answer(rows) == ["early"]
    assert pending.next_null_index(rows) == 2


def test_a_used_answer_is_gone():
    """
    The row that says an early answer was used replaces it.
    """
    rows = [
        StoredWrite(NULL_TASK, (), -4, 1, ((RESUME, ["early"]),)),
        StoredWrite(NULL_TASK, (), -4, 2, ((RESUME, []),)),
    ]

    assert pending.unaddressed_answer(rows) == []


@pytest.mark.parametrize(
    ("ledger", "generation"), [([], 1), ([own(("log", 1))], 1), ([asked(1, Q1), answered(4)], 5)]
)
def test_a_run_writes_control_rows_above_all_others(ledger, generation):
    """
    Each run's generation is above every stored one, so that its rows replace older ones.
    """
    assert pending.next_generation(ledger) == generation


class State(TypedDict):
    text: str


@pytest.mark.promise("L51", "L52", "L53", "L54")
@pytest.mark.langgraph("F-F1", "F-F2")
def test_a_conversation_of_three_questions_over_four_runs():
    """
    A node that asks three times gets its answers in order, one more with each run; every
    question has an id of its own, and the last run finishes it.
    """
    store, given, ids = Store(), {"text": "x"}, []
    for turn in range(4):
        run = Script(chain(State, "a"), Durability.SYNC, store=store)
        run.begin(given)
        run.saved()
        assert run.task("a").answers == tuple(range(turn))
        if turn < 3:
            run.ask("a", f"question {turn}")
        else:
            run.finish("a", text="done")
        run.saved()
        ids += [i.id for i in getattr(run.outcome, "interrupts", ())]
        given = Command(resume=turn)

    assert len(set(ids)) == 3
    assert run.outcome.values == {"text": "done"}


def test_an_answered_task_that_died_keeps_its_answer():
    """
    An answer that was accepted survives a crash of the run that was to use it.
    """
    store = Store()
    first = Script(chain(State, "a"), Durability.SYNC, store=store)
    first.begin({"text": "x"})
    first.saved()
    first.ask("a", "why?")
    first.saved()
    dead = Script(chain(State, "a"), Durability.SYNC, store=store)
    dead.begin(Command(resume="because"))
    dead.saved()
    run = Script(chain(State, "a"), Durability.SYNC, store=store)
    run.begin(None)
    run.saved()

    assert run.task("a").answers == ("because",)


def null(index: int, generation: int, *writes: Any) -> StoredWrite:
    """A row that belongs to no task."""
    return StoredWrite(NULL_TASK, (), index, generation, writes)


def routed(generation: int, **answers: Any) -> StoredWrite:
    """Answers to questions of the task's subgraph."""
    return StoredWrite("t", PATH, -5, generation, ((ROUTED, answers),))


class TestRouted:
    def test_answers_of_all_generations_are_kept(self):
        """
        Later answers are added by id and replace earlier ones; None is an answer too.
        """
        ledger = [routed(3, y=None, z=3), routed(1, x=1, y=1), routed(2, y=2, x=2)]

        assert attempts(ledger)["t"].routed == {"x": 2, "y": None, "z": 3}

    def test_a_refused_answer_is_taken_back_beside_its_question(self):
        """
        None takes an answer back if the question is asked again by a row of the same generation.
        """
        ledger = [asked(1, Q1, Q2), routed(2, **{Q1.id: "x", Q2.id: "y"}), asked(3, Q1)]
        ledger.append(routed(3, **{Q1.id: None, Q2.id: None}))

        assert attempts(ledger)["t"].routed == {Q2.id: None}

    def test_a_question_of_a_subgraph_waits_until_it_has_one(self):
        """
        It waits by its id, whatever answers the task's own questions have.
        """
        task = Task(TaskId("t"), "a", PATH, (), None)
        open_ = attempts([asked(1, Q1, Q2), answered(2, "a"), routed(2, **{Q1.id: "x"})])["t"]

        assert pending.open_questions(task, open_) == (Q2,)
        done = attempts([asked(1, Q1), own(("log", 1))])["t"]
        assert pending.open_questions(task, done) == ()

    def test_a_question_of_its_own_waits_until_answers_follow(self):
        """
        The task's own questions wait together, until answers of a later generation exist.
        """
        task = Task(TaskId("t"), "a", PATH, (), None)
        first, second = (Interrupt("?", interrupt_id(task.namespace, n)) for n in range(2))
        waiting = attempts([asked(1, first, second)])["t"]
        answering = attempts([asked(1, first, second), answered(2, "x")])["t"]

        assert pending.own_ids(task, 2) == {first.id: 0, second.id: 1}
        assert pending.open_questions(task, waiting) == (first, second)
        assert pending.open_questions(task, answering) == ()


def test_of_each_kind_of_control_row_the_newest_stays():
    """
    Superseded rows are dropped; a task's own rows and all routed answers stay.
    """
    old, new = asked(1, Q1), asked(2, Q2)
    others = [own(("log", 1)), routed(1, x=1), routed(2, x=2), failed(1, "no")]
    elsewhere = msgspec.structs.replace(old, task="u")

    assert pending.newest([old, *others, new, elsewhere]) == [*others, new, elsewhere]


def test_the_newest_row_is_found_in_any_order():
    """
    The highest generation counts; of two of one generation the later row.
    """
    old, new, again = asked(1, Q1), asked(2, Q2), asked(2, Q1)

    assert pending.newest([new, old]) == [new]
    assert attempts([new, old])["t"].interrupts == (Q2,)
    assert attempts([new, again])["t"].interrupts == (Q1,)


def test_rows_without_a_task_do_not_count_as_attempts():
    """
    Rows of Commands and of errors of the fold belong to no task.
    """
    assert attempts([null(0, 0, ("text", "x")), null(-1, 1, (ERROR, "no")), own()]).keys() == {"t"}


class TestRowsWithoutATask:
    LEDGER = (
        null(1, 0, ("text", "second"), (NO_WRITES, None)),
        null(0, 0, ("text", "first"), ("log", ["x"])),
        own(("text", "a task's"), index=5),
        null(-1, 1, (ERROR, "old")),
        null(-1, 2, (ERROR, "new")),
        failed(9, "a task's"),
        null(-4, 2, (RESUME, ["late"])),
        null(-4, 1, (RESUME, ["early"])),
        answered(9, "a task's"),
    )

    def test_writes_of_commands_are_read_in_their_order(self):
        """
        One tuple per Command, by the index of its row.
        """
        assert pending.accepted(self.LEDGER) == [
            (("text", "first"), ("log", ["x"])),
            (("text", "second"),),
        ]

    def test_the_next_command_has_the_next_index(self):
        """
        It counts the Commands' own rows, from 0.
        """
        assert pending.next_null_index(self.LEDGER) == 2
        assert pending.next_null_index([own(index=5), failed(1, "no")]) == 0
        assert pending.next_null_index([null(-1, 1, (ERROR, "no"))]) == 0

    def test_the_newest_error_of_the_fold_is_read(self):
        """
        It is the text of the highest generation; None without one.
        """
        assert pending.fold_error(self.LEDGER) == "new"
        assert pending.fold_error([failed(9, "a task's"), null(-4, 1, (RESUME, ["x"]))]) is None

    def test_the_newest_unused_answer_is_read(self):
        """
        It is the one of the highest generation; none without one.
        """
        assert pending.unaddressed_answer(self.LEDGER) == ["late"]
        assert pending.unaddressed_answer([answered(1, "x"), null(-1, 1, (ERROR, "no"))]) == []


def test_a_failure_left_to_a_handler_is_matched_by_its_rows():
    """
    A failure counts as handled only with the mark of its node beside it.
    """
    rows = [
        StoredWrite("1", ("a",), -1, 1, ((ERROR, "boom"),)),
        StoredWrite("1", ("a",), -6, 1, ((ERROR_SOURCE_NODE, "a"),)),
        StoredWrite("2", ("b",), -1, 1, ((ERROR, "boom"),)),
    ]
    known = pending.attempts(rows)

    assert [(known[i].handled, known[i].error) for i in "12"] == [(True, "boom"), (False, "boom")]
