"""Folding a superstep's writes: versions, order, all or nothing, and who runs next."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.channels import AnyValue, EphemeralValue
from actorgraph.errors import InvalidUpdateError
from actorgraph.plan.plan import Plan
from actorgraph.superstep.apply import TaskWrites, apply, apply_command
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import due_tasks, is_newer, next_nodes
from actorgraph.values.commands import Send
from actorgraph.values.constants import START, TASKS
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.run import path_key
from tests.superstep.script import Script, Store, graph, idle, names_of, snapshot


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]
    flash: Annotated[int, EphemeralValue]
    any: Annotated[int, AnyValue]


def append(old: list[str], new: list[str]) -> list[str]:
    """A reducer that refuses one item."""
    if "stop" in new:
        raise TypeError
    return operator.add(old, new)


class Picky(TypedDict):
    log: Annotated[list[str], append]


def diamond() -> Plan:
    edges = [(START, "a"), ("a", "b"), ("a", "c"), (["b", "c"], "d")]
    return graph(State, dict.fromkeys("abcd", idle), edges)


def fresh(plan: Plan | None = None) -> RunState:
    """A state into which the input {"text": "x"} has just been moved."""
    state = RunState(plan or diamond(), RunPolicy(), Store().mint, has_saver=True)
    apply(state, [TaskWrites("__input__", (), ((START, {}),))])
    apply(state, [TaskWrites(START, (START,), (("text", "x"), ("branch:to:a", None)))])
    return state


A = TaskWrites("a", ("branch:to:a",), (("text", "y"), ("branch:to:b", None), ("branch:to:c", None)))


class TestVersions:
    @pytest.mark.promise("S031", "S055", "L1")
    def test_all_channels_of_a_superstep_get_one_version(self):
        """
        All channels changed in a superstep get the same new version, one above the highest; the
        rest keeps its own.
        """
        state = fresh()
        before = dict(state.versions)
        apply(state, [A])

        changed = {"text", "branch:to:a", "branch:to:b", "branch:to:c"}
        assert {state.versions[c] for c in changed} == {max(before.values()) + 1}
        assert {c: v for c, v in state.versions.items() if c not in changed} == {
            c: v for c, v in before.items() if c not in changed
        }

    @pytest.mark.promise("S032", "L2", "C12")
    def test_a_node_has_seen_the_versions_that_made_it_due(self):
        """
        A node that writes its own trigger runs again: what it has seen is the version before
        its writes.
        """
        state = fresh()
        old = state.versions["branch:to:a"]
        apply(state, [TaskWrites("a", ("branch:to:a",), (("branch:to:a", None),))])

        assert state.seen["a"] == {"branch:to:a": old}
        assert state.versions["branch:to:a"] == old + 1
        assert names_of(due_tasks(state, None)) == ["a"]

    @pytest.mark.promise("S058", "L2")
    def test_only_triggers_are_seen(self):
        """
        Channels that a node merely reads don't count as seen; an input sees nothing.
        """
        state = fresh()
        apply(state, [A])

        assert {name: set(seen) for name, seen in state.seen.items()} == {
            "__input__": set(),
            START: {START},
            "a": {"branch:to:a"},
        }

    @pytest.mark.promise("L3", "L4")
    def test_a_cleared_cell_gets_a_version_but_makes_no_node_due(self):
        """
        A cleared ephemeral changes its version, is not available, and is not in the answer.
        """
        state = fresh()
        before = state.versions["branch:to:a"]
        changed = apply(state, [TaskWrites("a", ("branch:to:a",), (("text", "y"),))])

        assert changed == {"text"}
        assert state.versions["branch:to:a"] == before + 1
        assert "branch:to:a" not in state.values
        assert "branch:to:a" in state.dirty
        assert due_tasks(state, None) == []

    @pytest.mark.promise("L3")
    def test_a_superstep_that_changes_nothing_raises_no_version(self):
        """
        Versions rise with changes, not with supersteps.
        """
        state = fresh()
        apply(state, [TaskWrites("a", ("branch:to:a",), ())])
        before = (dict(state.versions), state.max_version, set(state.dirty))

        assert apply(state, [TaskWrites("a", ("branch:to:a",), ())]) == set()
        assert (state.versions, state.max_version, state.dirty) == before

    @pytest.mark.promise("S056", "S057", "S059", "C20")
    @pytest.mark.parametrize(
        ("version", "seen", "runs"),
        [
            (5, 4, True),
            (5, 5, False),
            (4, 5, False),
            (1, None, True),
            (0, None, False),
            (0.5, None, True),
            (0.0, None, False),
            ("v2", "v1", True),
            ("v1", None, True),
            ("", None, False),
            (None, None, False),
        ],
    )
    def test_the_trigger_rule(self, version, seen, runs):
        """
        A trigger counts when its version is above the one seen, or above the null of its own
        type when none was.
        """
        assert is_newer(version, seen) is runs

    @pytest.mark.promise("S054", "C20")
    def test_channels_may_have_versions_of_different_types(self):
        """
        One channel counts in text and another in numbers, and both trigger.
        """
        state = fresh()
        apply(state, [A])
        state.versions["branch:to:b"] = "v1"
        state.versions["branch:to:c"] = 0.5

        assert names_of(due_tasks(state, None)) == ["b", "c"]


class TestAging:
    @pytest.mark.promise("L17")
    @pytest.mark.parametrize("cell", ["flash", "any"])
    def test_a_short_lived_cell_lives_for_one_superstep(self, cell):
        """
        A written ephemeral is there in the next superstep and gone in the one after.
        """
        state = fresh()
        apply(state, [TaskWrites("a", ("branch:to:a",), ((cell, 1), ("branch:to:b", None)))])
        assert state.read(cell) == 1
        apply(state, [TaskWrites("b", ("branch:to:b",), ())])

        assert cell not in state.values

    @pytest.mark.promise("L16")
    @pytest.mark.parametrize("cell", ["flash", "any", "branch:to:a"])
    def test_writes_that_no_node_made_age_nothing(self, cell):
        """
        An input or a Command's update clears no ephemeral, so pending tasks stay.
        """
        state = fresh()
        apply(state, [TaskWrites("__input__", (), (("flash", 1), ("any", 1)))])
        apply(state, [TaskWrites("__input__", (), (("text", "new"),))])

        assert cell in state.values
        assert names_of(due_tasks(state, None)) == ["a"]


class TestJoins:
    @pytest.mark.langgraph("F-A11")
    def test_a_join_runs_once_all_have_come(self):
        """
        Node d waits for b and for c, over several supersteps if need be.
        """
        state = fresh()
        apply(state, [A])
        b, c = (state.plan.nodes[n].targets for n in "bc")
        assert due_tasks(state, apply(state, [TaskWrites("b", ("branch:to:b",), b)])) == []
        changed = apply(state, [TaskWrites("c", ("branch:to:c",), c)])

        assert names_of(due_tasks(state, changed)) == ["d"]

    @pytest.mark.promise("L23")
    def test_a_writer_in_the_subscribers_own_step_counts_for_the_next_round(self):
        """
        The barrier is emptied before the step's writes are added.
        """
        state = fresh()
        ((join, _),) = state.plan.nodes["b"].targets
        apply(state, [TaskWrites("b", (), ((join, "b"),)), TaskWrites("c", (), ((join, "c"),))])
        apply(state, [TaskWrites("b", (), ((join, "b"),)), TaskWrites("d", (join,), ())])

        assert state.values[join] == {"b"}
        assert due_tasks(state, None) == []


class TestOrder:
    @pytest.mark.promise("L15")
    @pytest.mark.langgraph("F-B8", "F-C3")
    @pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
    def test_writes_fold_in_path_order_not_in_order_of_completion(self, order):
        """
        Three parallel nodes' writes are folded by name, whichever returns first.
        """
        plan = graph(State, dict.fromkeys("abc", idle), [(START, n) for n in "cab"])
        run = Script(plan, saver=False)
        run.begin({"text": "x"})
        for place in order:
            run.finish("abc"[place], log=["abc"[place]])

        assert run.outcome.values["log"] == ["a", "b", "c"]

    @pytest.mark.promise("L15")
    @given(st.permutations(range(12)))
    def test_sends_fold_by_their_number_not_in_order_of_completion(self, order):
        """
        Twelve Sends to one node are folded in the order they were sent, not as text.
        """
        run = fan_out(12)
        ids = [task.id for task in run.running.values()]
        for number in order:
            place = [t.id for t in run.running.values() if t.name == "work"].index(ids[number])
            run.finish("work", at=place, log=[str(number)])

        assert run.outcome.values["log"] == [str(number) for number in range(12)]

    def test_paths_sort_nodes_before_sends_and_sends_by_number(self):
        """
        The stored key of a path sorts as the plan does: nodes by name, then Sends by index.
        """
        paths = [(), ("__pregel_pull", "a"), ("__pregel_pull", "b")]
        paths += [("__pregel_push", n) for n in (0, 2, 10, 100)]

        assert sorted(paths, key=path_key) == paths


def fan_out(count: int) -> Script:
    """A run in which node `a` has just sent `count` packets to `work`."""
    plan = graph(State, {"a": idle, "work": idle}, [(START, "a")])
    run = Script(plan, saver=False)
    run.begin({"text": "x"})
    run.finish("a", [Send("work", n) for n in range(count)])
    return run


class TestSeen:
    def test_a_half_filled_join_is_not_among_the_available_channels(self):
        """
        `apply` returns the channels that may make nodes due.
        """
        state = fresh()
        apply(state, [A])
        half = apply(state, [TaskWrites("b", ("branch:to:b",), diamond().nodes["b"].targets)])
        full = apply(state, [TaskWrites("c", ("branch:to:c",), diamond().nodes["c"].targets)])

        assert (half, names_of(due_tasks(state, full))) == (set(), ["d"])

    def test_versions_that_a_node_has_seen_are_kept(self):
        """
        A node with two triggers that runs by one of them keeps what it has seen of the other.
        """
        state = fresh()
        apply(state, [TaskWrites("d", ("branch:to:a",), (("text", "y"),))])
        first = dict(state.seen["d"])
        apply(state, [TaskWrites("d", ("text", "gone"), ())])

        assert state.seen["d"] == {**first, "text": state.versions["text"]}

    def test_commands_count_the_rounds_of_sends(self):
        """
        Each Command with Sends begins a round; other writes begin none.
        """
        state = fresh()
        rounds = []
        for writes in ([("text", "x")], [(TASKS, Send("a", 1))], [(TASKS, Send("a", 2))]):
            apply_command(state, writes)
            rounds.append(state.send_round)

        assert rounds == [0, 1, 2]
        assert "__input__" in state.seen
        assert None not in state.seen


class TestAllOrNothing:
    def test_an_error_has_a_note_of_the_writers(self):
        """
        The note on a reducer's error names the tasks that wrote the channel.
        """
        state = fresh()
        ran = [
            TaskWrites("c", (), (("text", "1"),)),
            TaskWrites("b", (), (("text", "2"), ("log", ["b"]))),
            TaskWrites("d", (), (("log", ["d"]),)),
        ]
        with pytest.raises(InvalidUpdateError) as refused:
            apply(state, ran)

        assert refused.value.__notes__ == ["while folding the writes of b, c into 'text'"]

    @pytest.mark.parametrize("bad", [0, 1, 2])
    def test_a_refused_write_changes_nothing_at_all(self, bad):
        """
        When one channel refuses, no cell, version or seen of the superstep has changed.
        """
        state = fresh()
        apply(state, [A])
        before = snapshot(state)
        ran = [
            TaskWrites("b", ("branch:to:b",), (("log", ["b"]), ("any", 1))),
            TaskWrites("c", ("branch:to:c",), (("log", ["c"]), ("flash", 1))),
        ]
        ran.insert(bad, TaskWrites("d", (), (("text", "1"), ("text", "2"))))

        with pytest.raises(InvalidUpdateError, match="At key 'text'"):
            apply(state, ran)
        assert snapshot(state) == before

    @pytest.mark.parametrize(
        ("before", "writes", "advice"),
        [
            (["x"], (["y"], "z"), ["return a list of items to append: {'log': [...]}"]),
            (["x"], (3,), ["return a list of items to append: {'log': [...]}"]),
            (["x"], (["y"], ["stop"]), []),
            (3, ("z",), []),
        ],
    )
    def test_a_failing_fold_names_its_writers_and_what_a_list_takes(self, before, writes, advice):
        """
        Where an item was returned instead of a list of items, a note says so.
        """
        state = RunState(graph(Picky, {"a": idle}, []), RunPolicy(), Store().mint, has_saver=True)
        state.values["log"] = before
        with pytest.raises(TypeError) as raised:
            apply(state, [TaskWrites("a", (), tuple(("log", write) for write in writes))])

        assert raised.value.__notes__ == ["while folding the writes of a into 'log'", *advice]

    def test_a_reducer_that_raises_fails_the_run_and_keeps_the_state(self):
        """
        A reducer's own error ends the run; the state is the one before the superstep.
        """

        class Bad(TypedDict):
            text: str
            log: Annotated[list[str], lambda old, new: [*old, *new["no such key"]]]

        run = Script(graph(Bad, {"a": idle}, [(START, "a")]), Durability.SYNC)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", text="y", log=["z"])
        run.saved()

        assert isinstance(run.outcome.error, TypeError)
        assert run.state.values["text"] == "x"

    @pytest.mark.promise("L19")
    def test_unknown_and_reserved_channels_are_skipped(self):
        """
        A write to a channel that the graph no longer has isn't folded.
        """
        state = fresh()
        changed = apply(
            state, [TaskWrites("a", ("branch:to:a",), (("gone", 1), ("__resume__", 2)))]
        )

        assert changed == set()
        assert not {"gone", "__resume__"} & (set(state.values) | set(state.versions))


WRITES = st.lists(
    st.one_of(
        st.tuples(st.just("log"), st.lists(st.text(max_size=2), max_size=2)),
        st.tuples(st.sampled_from(["text", "flash", "any"]), st.integers()),
        st.tuples(st.sampled_from([f"branch:to:{n}" for n in "abcd"]), st.none()),
        st.tuples(st.just(TASKS), st.builds(Send, st.just("a"), st.integers())),
    ),
    max_size=6,
)
RAN = st.lists(
    st.builds(
        lambda name, writes: TaskWrites(name, (f"branch:to:{name}",), tuple(writes)),
        st.sampled_from("abcd"),
        WRITES,
    ),
    max_size=4,
)


@pytest.mark.promise("S072")
@given(st.lists(RAN, max_size=5))
def test_apply_is_a_function_of_its_arguments(supersteps):
    """
    The same supersteps on the same state give the same state, each refused one changes nothing,
    and neither the writes nor the cells of an older checkpoint are modified.
    """
    left, right = fresh(), fresh()
    for ran in supersteps:
        before = snapshot(left)
        shown = repr((before, ran))
        outcomes = []
        for state in (left, right):
            try:
                outcomes.append(apply(state, ran))
            except InvalidUpdateError as error:
                outcomes.append(str(error))
                assert snapshot(state) == before
        assert outcomes[0] == outcomes[1]
        assert snapshot(left) == snapshot(right)
        assert repr((before, ran)) == shown


@pytest.mark.promise("S062", "S067", "L5", "L6", "C21")
@given(st.lists(RAN, max_size=5))
def test_changed_channels_find_the_same_nodes_as_a_full_scan(supersteps):
    """
    The list of changed channels is a shortcut only: without it the same tasks, with the same
    ids, are due.
    """
    state = fresh()
    for ran in supersteps:
        due = {t.name: t.triggers for t in due_tasks(state, None)}
        ready = [TaskWrites(r.name, due[r.name], r.writes) for r in ran if due.get(r.name)]
        others = [TaskWrites(n, t, ()) for n, t in due.items() if n not in {r.name for r in ready}]
        try:
            changed = apply(state, [*ready, *others])
        except InvalidUpdateError:
            continue
        assert due_tasks(state, changed) == due_tasks(state, None)


@pytest.mark.promise("S034", "L26")
def test_next_is_shown_in_the_order_of_definition():
    """
    Tasks run by name, and a snapshot lists them as the graph defines them.
    """
    plan = graph(State, dict.fromkeys("cab", idle), [(START, n) for n in "cab"])
    state = fresh(plan)
    state.values.update({f"branch:to:{n}": None for n in "cab"})
    state.versions.update({f"branch:to:{n}": 9 for n in "cab"})
    tasks = due_tasks(state, None)

    assert names_of(tasks) == ["a", "b", "c"]
    assert next_nodes(plan, tasks) == ("c", "a", "b")


def test_two_runs_of_one_graph_share_nothing():
    """
    Reducers' first values belong to one run.
    """
    left: Any = fresh()
    apply(left, [TaskWrites("a", ("branch:to:a",), (("log", ["x"]),))])

    assert fresh().values["log"] == []
