"""The ledger beside a checkpoint: tasks that have finished, asked, failed, been answered."""

from typing import Any, TypedDict

import pytest

from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.pending_writes import Attempt, attempts
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.constants import ERROR, INTERRUPT, NO_WRITES, NULL_TASK, RESUME
from actorgraph.values.policies import Durability
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
        Attempt(PATH, error="no", interrupts=(Q1,), answers=("a",)),
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
    assert pending.bare_answer(rows) == ["early"]
    assert pending.next_null_index(rows) == 2


def test_a_used_answer_is_gone():
    """
    The row that says an early answer was used replaces it.
    """
    rows = [
        StoredWrite(NULL_TASK, (), -4, 1, ((RESUME, ["early"]),)),
        StoredWrite(NULL_TASK, (), -4, 2, ((RESUME, []),)),
    ]

    assert pending.bare_answer(rows) == []


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
