"""DeltaChannels: which writes rebuild a value, and which checkpoints hold it whole."""

from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import DeltaChannel, LastValue
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.deltas import (
    DeltaChoice,
    batches,
    choose_deltas,
    counters_of,
    in_order,
    note_left_over,
    refolded,
)
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.run_state import OpenCalls, RunState
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.commands import Overwrite
from actorgraph.values.constants import NULL_TASK
from actorgraph.values.ids import TaskId
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import Task
from tests.superstep.script import Store, chain
from tests.superstep.threads import EXIT, PAIR


def extend(old: list[str], new: list[list[str]]) -> list[str]:
    """A reducer of whole batches."""
    return [*old, *(item for write in new for item in write)]


RULE = DeltaChannel(extend, list, snapshot_frequency=3, supersteps_max=5)


class Delta(TypedDict, total=False):
    text: str
    log: Annotated[list[str], RULE]


class Deltas(Delta, total=False):
    other: Annotated[list[str], RULE]


def state_of(source: str = "loop", **policy: Any) -> RunState:
    """A state whose `log` has a value."""
    state = RunState(chain(Delta, "a"), RunPolicy(**policy), Store().mint, has_saver=True)
    state.source = source
    state.values["log"] = ["x"]
    return state


class TestChoosing:
    @pytest.mark.parametrize(
        ("before", "written", "whole", "counters"),
        [
            (None, True, False, {"log": (1, 1)}),
            (None, False, False, {}),
            ((1, 1), True, False, {"log": (2, 2)}),
            ((1, 1), False, False, {"log": (1, 2)}),
            ((2, 2), True, True, {}),
            ((2, 3), False, False, {"log": (2, 4)}),
            ((2, 4), False, True, {}),
            ((1, 4), True, True, {}),
        ],
    )
    def test_by_the_supersteps_since_it_was_whole(self, before, written, whole, counters):
        """
        After so many writes, or so many checkpoints, the value itself is stored.
        """
        state = state_of()
        state.deltas = {} if before is None else {"log": before}
        changed: dict[str, Any] = {"text": 1, **({"log": ["x"]} if written else {})}
        choice = choose_deltas(state, changed)

        assert choice == DeltaChoice(
            counters, folds=True, unwritten=frozenset({"log"} if whole and not written else ())
        )
        assert changed == {"text": 1, **({"log": ["x"]} if whole else {})}
        assert state.deltas == counters

    @pytest.mark.parametrize(
        ("source", "policy"),
        [("update", {}), ("fork", {}), ("input", {}), ("loop", {"durability": EXIT})],
    )
    def test_without_a_ledger_writes_are_stored_whole(self, source, policy):
        """
        Only a superstep whose rows are stored can leave its value out.
        """
        changed: dict[str, Any] = {"log": ["x"]}
        choice = choose_deltas(state_of(source, **policy), changed)

        assert choice == DeltaChoice({}, folds=False)
        assert changed == {"log": ["x"]}

    def test_one_that_must_be_whole_is_stored_whether_written_or_not(self):
        """
        The wish counts for one checkpoint.
        """
        state = state_of()
        state.deltas, state.whole = {"log": (1, 1)}, {"log"}
        changed: dict[str, Any] = {}
        choice = choose_deltas(state, changed)

        assert (choice.counters, choice.unwritten) == ({}, {"log"})
        assert (changed, state.whole) == ({"log": ["x"]}, set())

    @pytest.mark.parametrize(("rule", "stored"), [(LastValue(list), True), (None, False)])
    def test_one_of_an_older_graph_is_stored_at_once(self, rule, stored):
        """
        A channel that is no longer a DeltaChannel is stored whole; one that is gone keeps its
        counters.
        """
        state = state_of()
        plan = chain(Delta, "a")
        channels = {k: v for k, v in plan.channels.items() if k != "log"}
        object.__setattr__(plan, "channels", channels | ({"log": rule} if rule else {}))
        object.__setattr__(plan, "deltas", frozenset())
        state.plan = plan
        state.deltas = {"log": (1, 1)}
        changed: dict[str, Any] = {}
        choice = choose_deltas(state, changed)

        assert choice.counters == ({} if stored else {"log": (1, 2)})
        assert changed == ({"log": ["x"]} if stored else {})

    def test_an_overwrite_makes_it_whole(self):
        """
        Nothing before it is needed any more; other writes leave it as it is.
        """
        state = state_of()
        apply(state, [TaskWrites("a", (), (("log", ["y"]),))])
        assert state.whole == set()
        apply(state, [TaskWrites("a", (), (("log", ["y"]), ("log", Overwrite(["z"]))))])
        assert state.whole == {"log"}

    def test_rows_of_tasks_that_are_gone_make_it_whole(self):
        """
        Only finished ones have written, and only DeltaChannels are rebuilt of writes.
        """
        writes = (("text", "x"), ("log", ["x"]))
        task = Task(TaskId("here"), "a", (), (), None)
        for known, whole in [
            ({"gone": Attempt((), writes)}, {"log"}),
            ({"here": Attempt((), writes)}, set()),
            ({"gone": Attempt((), None)}, set()),
        ]:
            state = state_of()
            state.tasks = {task.id: task}
            note_left_over(state, known)
            assert state.whole == whole

    def test_all_channels_that_must_be_whole_are_noted(self):
        """
        Several at once, of Overwrites and of tasks that are gone.
        """
        plan = chain(Deltas, "a")
        writes = [(c, Overwrite([c])) for c in ("log", "other")]
        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        apply(state, [TaskWrites("a", (), tuple(writes))])
        assert state.whole == {"log", "other"}

        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        gone = {c: Attempt((), ((c, ["x"]),)) for c in ("log", "other")}
        note_left_over(state, gone)
        assert state.whole == {"log", "other"}

    def test_its_counters_are_in_the_metadata(self):
        """
        Under a key of their own, if there are any.
        """
        assert counters_of({}) == {}
        assert counters_of({"log": (1, 2)}) == {"counters_since_delta_snapshot": {"log": (1, 2)}}


def row(task: str, index: int, *writes: tuple[str, Any]) -> StoredWrite:
    """A row of the ledger."""
    return StoredWrite(task, (), index, 0, writes)


LEDGER = [
    row("a", 0, ("log", ["a"]), ("text", "a"), ("log", ["aa"])),
    row(NULL_TASK, 2, ("log", ["2"])),
    row("b", -1, ("log", ["no"])),
    row(NULL_TASK, 0, ("log", ["0"]), ("log", ["00"])),
    row(NULL_TASK, 1, ("text", "1")),
    row("b", 0, ("log", ["b"])),
]


class TestRebuilding:
    def test_rows_are_read_as_they_were_folded(self):
        """
        Those of Commands first, by their number, then those of tasks; no control rows.
        """
        found = [(row.task, row.index) for row in in_order(LEDGER)]

        assert found == [(NULL_TASK, 0), (NULL_TASK, 1), (NULL_TASK, 2), ("a", 0), ("b", 0)]

    def test_each_command_is_a_batch_and_all_tasks_are_one(self):
        """
        Batches without a write to the channel are left out.
        """
        assert batches(LEDGER, "log") == [[["0"], ["00"]], [["2"]], [["a"], ["aa"], ["b"]]]
        assert batches(LEDGER, "text") == [["1"], ["a"]]
        assert batches(LEDGER[1:2], "log") == [[["2"]]]
        assert batches(LEDGER, "other") == []

    def test_batches_are_folded_oldest_first(self):
        """
        Each batch with one call of the reducer, into the value of the one before.
        """
        assert refolded(RULE, "log", ["x"], batches(LEDGER, "log")) == [
            "x", "0", "00", "2", "a", "aa", "b",
        ]  # fmt: skip
        assert refolded(RULE, "log", ["x"], []) == ["x"]


FIRST: dict[str, Any] = {
    "saves_at_once": True,
    "now": 0,
    "sets_alarm": False,
    "timings": {},
    "anchor": None,
    "answering": False,
    "unaddressed_answer": [],
    "barrier": 0,
    "calls": None,
    "checkpoint": b"first",
    "deltas": {},
    "dirty": set(),
    "drained": None,
    "dropped": [],
    "durable": 0,
    "failure": None,
    "final_save_due": False,
    "generation": 1,
    "handled": {},
    "has_output": False,
    "has_saver": True,
    "head": None,
    "interrupted": {},
    "left_waiting": (),
    "max_version": 0,
    "namespace": "",
    "nested": None,
    "open": False,
    "outcome": None,
    "parent": None,
    "pause": "interrupt_after",
    "plan": PAIR,
    "preview": None,
    "refused": None,
    "results": {},
    "returned": {},
    "running": {},
    "seen": {},
    "send_round": 0,
    "sent": 0,
    "source": "input",
    "step": -2,
    "steps_left": 9,
    "stopping": None,
    "tasks": {},
    "thread_id": "",
    "unflushed": [],
    "updated": None,
    "values": {"log": []},
    "versions": {},
    "visits": {},
    "steps": None,
    "held": None,
    "whole": set(),
    "left": (),
    "places": {},
    "stored_ids": set(),
    "stored_calls": {},
}


def test_a_new_state_has_nothing_done():
    """
    Its fields before an input: nothing stored, nothing due, all counters at their start.
    """
    made: list[Any] = []

    def mint(step: int, parent: bytes | None) -> Any:
        made.append((step, parent))
        return b"first"

    policy = RunPolicy(recursion_limit=9)
    state = RunState(PAIR, policy, mint, has_saver=True)
    fields = {name: getattr(state, name) for name in RunState.__slots__}
    empty = ("due", "unsaved_steps")
    assert [list(fields.pop(name)) for name in empty] == [[]] * 2
    assert made == [(-2, None)]
    assert fields == FIRST | {"mint": mint, "policy": policy}


def test_a_call_that_has_ended_is_forgotten():
    """
    Closing and restarting a call take every mark of it away; its caller is returned.
    """
    calls = OpenCalls()
    first, second = (Task(TaskId(name), name, (), (), None) for name in "12")
    calls.open("caller", first)
    calls.open("caller", second)
    calls.dropped, calls.again = {"1", "2"}, {"1", "2"}
    calls.due.clear()
    calls.restart(first)
    assert (calls.due, calls.dropped, calls.again) == ({"1": first}, {"2"}, {"2"})

    assert calls.close("2") == "caller"
    assert (calls.of, calls.callers) == ({"caller": {"1"}}, {"1": "caller"})
    assert (calls.dropped, calls.again) == (set(), set())
    assert calls.close("1") == "caller"
    assert (calls.of, calls.callers) == ({}, {})
