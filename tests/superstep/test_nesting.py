"""Positions of nested runs: namespaces, what they take up, when they store something."""

import pytest

from actorgraph.errors import ConflictError
from actorgraph.superstep.nesting import (
    TASK_KEY,
    Nested,
    continues_stored,
    fixed_id,
    nested_namespace,
    nodes_of,
    saves_at_end,
    stable_namespace,
)
from actorgraph.values.checkpoint import Restored
from actorgraph.values.ids import TaskId, uuid6
from actorgraph.values.policies import Durability
from actorgraph.values.run import Failed, Interrupted, Succeeded, Task

BASE = uuid6(10**17, 3, 5)


def stored(parents: dict[str, str], task: str = "", due: tuple[str, ...] = ()) -> Restored:
    return Restored(
        id=BASE,
        parent=None,
        sequence=1,
        namespace="child",
        step=1,
        source="loop",
        created=0,
        run=None,
        graph="",
        values={},
        versions={},
        seen={},
        updated=None,
        next=due,
        metadata={"parents": parents, TASK_KEY: task},
    )


class TestNamespaces:
    @pytest.mark.langgraph("L11", "L12", "F-E17")
    @pytest.mark.parametrize(
        ("count", "stateful", "expected"),
        [
            (0, False, "a:1|b:2"),
            (1, False, "a:1|b:2|1"),
            (2, False, "a:1|b:2|2"),
            (0, True, "a|b"),
            (1, True, "a|b|1"),
        ],
    )
    def test_of_each_graph_of_a_task(self, count, stateful, expected):
        """
        A namespace is `node:task id` per level; `|n` distinguishes the later graphs of one task; a
        stateful one has no task ids.
        """
        task = Task(TaskId("2"), "b", (), (), None, within="a:1")

        assert nested_namespace(task.namespace, count, stateful=stateful) == expected

    @pytest.mark.parametrize(
        ("namespace", "nodes"),
        [("", ()), ("a:1", ("a",)), ("a:1|1|b:2", ("a", "b")), ("a|1|b", ("a", "b"))],
    )
    def test_name_the_nodes_that_lead_there(self, namespace, nodes):
        """
        The nodes of a namespace are its names without ids and numbers.
        """
        assert nodes_of(namespace) == nodes
        assert nodes_of(stable_namespace(namespace)) == nodes


class TestTakingUp:
    @pytest.mark.parametrize(
        ("stateful", "under", "expected"),
        [(False, "1", True), (False, "2", True), (True, "1", True), (True, "2", False)],
    )
    def test_a_nested_run_finds_its_earlier_attempt(self, stateful, under, expected):
        """
        The checkpoint in a task's own namespace is taken up; in a stateful one only if it was made
        under the same checkpoint of the parent.
        """
        nested = Nested({"": "1"}, {}, stateful)

        assert continues_stored(nested, stored({"": under})) is expected

    def test_a_stateful_graph_of_another_task(self):
        """
        The checkpoint of a sibling is history once it is through; before that it is not to be used.
        """
        nested = Nested({"": "1"}, {}, stateful=True, task="b")

        assert not continues_stored(nested, stored({"": "1"}, "a"))
        with pytest.raises(ConflictError):
            continues_stored(nested, stored({"": "1"}, "a", due=("node",)))


class TestLeaving:
    @pytest.mark.langgraph("F-E13", "L83")
    @pytest.mark.parametrize(
        ("nested", "mode", "outcome", "expected"),
        [
            (None, "exit", Succeeded({}), False),
            (Nested({}, {}), "sync", Interrupted({}, ()), False),
            (Nested({}, {}), "exit", Succeeded({}), False),
            (Nested({}, {}), "exit", Interrupted({}, ()), True),
            (Nested({}, {}), "exit", Failed(ValueError()), True),
            (Nested({}, {}, stateful=True), "exit", Succeeded({}), True),
        ],
    )
    def test_in_exit_mode_only_what_is_needed_again_is_stored(
        self, nested, mode, outcome, expected
    ):
        """
        A nested run that has finished is inside of its parent's result; one that pauses, fails
        or keeps its state is stored when it leaves.
        """
        assert saves_at_end(nested, Durability(mode), outcome) is expected


class TestIdsWithoutASaver:
    def test_are_the_same_whenever_the_task_runs_again(self):
        """
        The same task, step and place give the same id; another place another one.
        """
        again = [fixed_id("a:1", BASE, 0) for _ in range(2)]

        assert again[0] == again[1]
        assert len({again[0], fixed_id("a:1", BASE, 1), fixed_id("a:1|1", BASE, 0)}) == 3
