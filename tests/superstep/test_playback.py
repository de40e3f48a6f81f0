"""Recorded runs as chunks again, made from checkpoints and pending writes alone."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.superstep.playback import play_back
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Command
from actorgraph.values.constants import START
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import Emit, Finish, Interrupted, Succeeded
from tests.superstep.script import Script, Store, chain, graph, idle


class State(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]


MODES = frozenset({"values", "updates", "tasks", "checkpoints"})
PLAN = graph(State, {"b": idle, "a": idle, "c": idle}, [(START, "b"), (START, "a"), ("a", "c")])


def recorded(plan: Any, *, ask: bool = False) -> tuple[Store, Script]:
    """A thread on which a run went to its end, or to a question of its last node."""
    run = Script(plan, modes=MODES)
    run.begin({"text": "x"})
    run.saved()
    for _ in range(3):
        for name in sorted(run.names):
            if ask and name == "c":
                run.ask("c", "why?")
            else:
                run.finish(name, log=[name])
            run.saved()
    return run.store, run


def played(plan: Any, store: Store, count: int | None = None, **settings: Any) -> Any:
    """The chunks of the record's first checkpoints, and the outcome."""
    state = RunState(plan, RunPolicy(modes=MODES, **settings), store.mint, has_saver=True)
    state.thread_id = "t"
    chain_ = [store.restored(n) for n in range(len(store.points) if count is None else count)]
    effects = play_back(state, [point for point in chain_ if point is not None])
    assert [type(effect) for effect in effects] == [Emit, Finish]
    emit, finish = effects
    assert isinstance(emit, Emit)
    assert isinstance(finish, Finish)
    assert state.sent == 0
    return list(emit.chunks), finish.outcome


def by_mode(chunks: Any) -> dict[str, list[Any]]:
    """The chunks of each mode."""
    return {mode: [c for _, kind, c in chunks if kind == mode] for mode in sorted(MODES)}


class TestAFinishedRun:
    def test_is_shown_as_it_was(self):
        """
        Values, tasks and updates are those that the run's own readers got, from the first
        checkpoint on; the checkpoints are those after it.
        """
        store, run = recorded(chain(State, "a", "b", "c"))
        chunks, outcome = played(chain(State, "a", "b", "c"), store)
        again, then = by_mode(chunks), by_mode(run.chunks)

        assert outcome == Succeeded({"text": "x", "log": ["a", "b", "c"]})
        for mode in ("values", "updates", "tasks"):
            assert again[mode] == then[mode]
        assert [c["config"] for c in again["checkpoints"]] == [
            c["config"] for c in then["checkpoints"][1:]
        ]
        assert [c["next"] for c in again["checkpoints"]] == [["a"], ["b"], ["c"], []]

    def test_tasks_of_one_superstep_are_shown_in_path_order(self):
        """
        The order in which they ended is not stored: starts, then results, both by name.
        """
        store, _ = recorded(PLAN)
        chunks, _ = played(PLAN, store)
        told = by_mode(chunks)

        assert [next(iter(update)) for update in told["updates"]] == ["a", "b", "c"]
        assert [(t["name"], "input" in t) for t in told["tasks"]] == [
            ("a", True),
            ("b", True),
            ("a", False),
            ("b", False),
            ("c", True),
            ("c", False),
        ]

    def test_a_superstep_that_changed_no_output_key_has_no_values(self):
        """
        Only changes of output keys are shown as values.
        """
        store, _ = recorded(chain(State, "a", "b", "c"))
        chunks, _ = played(chain(State, "a", "b", "c"), store, output_keys=("text",))

        assert by_mode(chunks)["values"] == [{"text": "x"}]


class TestTheEndOfTheRecord:
    def test_an_open_question_pauses_the_playback(self):
        """
        Where the record ends with an open question the outcome has it, and readers see it.
        """
        store, run = recorded(PLAN, ask=True)
        chunks, outcome = played(PLAN, store)
        told = by_mode(chunks)

        assert isinstance(outcome, Interrupted)
        assert [i.value for i in outcome.interrupts] == ["why?"]
        assert outcome == run.outcome
        assert told["updates"][-1] == {"__interrupt__": outcome.interrupts}
        assert told["checkpoints"][-1]["tasks"][0]["interrupts"][0]["value"] == "why?"
        assert [t["name"] for t in told["tasks"]].count("c") == 0

    def test_a_question_that_was_answered_is_left_out(self):
        """
        The checkpoint on which it was asked has a child, so the run went on.
        """
        store, _ = recorded(PLAN, ask=True)
        run = Script(PLAN, store=store)
        run.begin(Command(resume="so"))
        run.saved()
        run.finish("c", log=["c"])
        run.saved()
        chunks, outcome = played(PLAN, store)
        told = by_mode(chunks)

        assert outcome == Succeeded({"text": "x", "log": ["a", "b", "c"]})
        assert all("__interrupt__" not in update for update in told["updates"])

    @pytest.mark.parametrize(("count", "log"), [(2, []), (3, ["a", "b"])])
    def test_tasks_that_are_due_pause_it_too(self, count, log):
        """
        A record that ends before the run did is shown up to there, with the finished tasks.
        """
        store, _ = recorded(PLAN)
        _, outcome = played(PLAN, store, count)

        assert outcome == Interrupted({"text": "x", "log": log}, ())
