"""Return values in rarer forms, and what routers see of them."""

import dataclasses
import functools
import operator
from typing import Annotated, Any, ClassVar, TypedDict

import pytest
from pydantic import BaseModel, Field

from actorgraph.channels import EMPTY, LastValueAfterFinish
from actorgraph.errors import InvalidUpdateError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import BranchPlan, NodePlan
from actorgraph.superstep.limits import on_step_timeout, pauses
from actorgraph.superstep.nesting import fixed_id
from actorgraph.superstep.results import (
    branch_targets,
    branch_view,
    passed_on,
    updates_in,
    writes_of,
)
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import view
from actorgraph.values.commands import Command, Overwrite, Send
from actorgraph.values.constants import HANDED_UP, START, TASKS
from actorgraph.values.policies import RunPolicy
from tests.superstep.script import Script, Store, chain, idle
from tests.superstep.threads import PAIR, State, three

A = PAIR.nodes["a"]


@dataclasses.dataclass
class Data:
    kind: ClassVar[str] = "data"
    text: str = "x"


class Strange:
    """A value that refuses to be compared."""

    def __ne__(self, other: object) -> bool:
        raise TypeError

    __hash__ = None  # type: ignore[assignment]


class Model(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    log: list[str] = Field(default_factory=list)
    strange: Any = None
    other: dict[str, int] = Field(default_factory=dict)


class TestSubgraphs:
    def test_a_command_for_the_parent_leaves_them(self):
        """
        In a subgraph such a Command is a write that no channel takes, and no edge leads on.
        """
        command = Command(graph=Command.PARENT, update={"text": "x"}, goto="b")

        made = writes_of(PAIR, A, [{"text": "y"}, command], nested=True)

        assert made == ([("text", "y"), (HANDED_UP, [{"text": "x"}, ["b"]])], [])

    def test_a_command_for_another_graph_is_refused(self):
        """
        There is one parent; any other name is an error in a subgraph too.
        """
        with pytest.raises(InvalidUpdateError, match="graph='other'"):
            writes_of(PAIR, A, Command(graph="other"), nested=True)
        with pytest.raises(InvalidUpdateError, match=r"a Command with graph=Command\.PARENT, but"):
            writes_of(PAIR, A, Command(graph=Command.PARENT))

    @pytest.mark.parametrize(
        ("node", "nested", "count"), [("a", True, 1), (START, True, 0), (START, False, 1)]
    )
    def test_only_their_inputs_unknown_keys_are_not_reported(self, node, nested, count):
        """
        A node's unknown keys are reported in a subgraph too.
        """
        writes, dropped = writes_of(PAIR, PAIR.nodes[node], {"txet": 1, "text": "x"}, nested=nested)

        assert ("text", "x") in writes
        assert len(dropped) == count

    def test_keys_of_a_subgraphs_own_are_dropped_silently(self):
        """
        A node that is a graph returns its whole state, of which only some keys are this graph's.
        """
        node = dataclasses.replace(A, own=frozenset({"theirs"}))

        assert writes_of(PAIR, node, {"theirs": 1, "text": "x"})[1] == []


class TestShapes:
    def node(self, *, literal: bool) -> NodePlan:
        """A node whose return value is made into writes."""
        return dataclasses.replace(A, shape=lambda value: [("text", value)], literal=literal)

    @pytest.mark.parametrize("returned", ["x", {"text": "y"}, [{"text": 1}], None])
    def test_make_the_writes_of_any_value(self, returned):
        """
        The function gets the returned value as it is; static edges follow.
        """
        writes, dropped = writes_of(PAIR, self.node(literal=False), returned)

        assert (writes, dropped) == ([("text", returned), *A.targets], [])

    @pytest.mark.parametrize("returned", [Command(goto="b"), Send("b", 1)])
    def test_do_not_get_commands_unless_they_are_values(self, returned):
        """
        Commands and Sends act, except in a node that returns them literally.
        """
        plain, _ = writes_of(PAIR, self.node(literal=False), returned)
        literal, _ = writes_of(PAIR, self.node(literal=True), returned)

        acts = ("branch:to:b", None) if isinstance(returned, Command) else (TASKS, returned)
        assert plain == [acts, *A.targets]
        assert literal == [("text", returned), *A.targets]


class TestForms:
    @pytest.mark.parametrize("returned", [[("text", "x", "y")], [(1, "x")], [["text", "x"]]])
    def test_lists_of_other_things_than_pairs_are_refused(self, returned):
        """
        A pair is a tuple of a key and a value.
        """
        with pytest.raises(InvalidUpdateError, match="Expected dict, got"):
            writes_of(PAIR, A, returned)

    def test_of_many_unknown_keys_ten_sentences_are_made(self):
        """
        Nine keys are named; the tenth sentence counts all others.
        """
        _, few = writes_of(PAIR, A, {str(number): 0 for number in range(10)})
        _, many = writes_of(PAIR, A, {str(number): 0 for number in range(20_000)})

        assert len(few) == len(many) == 10
        assert many[:9] == few[:9]
        assert few[9].startswith("node 'a' returned '9', which is not a channel")
        assert many[9] == "node 'a' returned 19991 more keys that are not channels of this graph"

    def test_unknown_keys_of_an_object_are_reported(self):
        """
        As those of a dict are.
        """
        other = dataclasses.make_dataclass("Other", ["txet"])(1)
        writes, dropped = writes_of(PAIR, A, other)

        assert writes == [*A.targets]
        assert dropped == [
            "node 'a' returned 'txet', which is not a channel of this graph (did you mean 'text'?)"
        ]

    def test_a_dataclass_gives_its_fields_alone(self):
        """
        Class variables are not fields.
        """
        assert list(updates_in(A, Data())) == [("text", "x")]

    def test_a_models_fields_that_were_changed_in_place_are_given(self):
        """
        Fields that were neither set nor changed are not; one that can't be compared is.
        """
        model = Model()
        assert list(updates_in(A, model)) == []
        model.log.append("x")
        assert list(updates_in(A, model)) == [("log", ["x"])]
        odd = Model.model_construct()
        odd.__dict__["strange"] = Strange()
        assert [key for key, _ in updates_in(A, odd)] == ["strange"]

    def test_langgraphs_sends_and_commands_are_read(self):
        """
        Its objects are routes like ours, in a Command's goto and in a router's answer.
        """
        types = pytest.importorskip("langgraph.types", reason="needs LangGraph")
        theirs = types.Send("b", 1)
        branch = self.branch()

        assert (TASKS, Send("b", 1)) in writes_of(PAIR, A, Command(goto=theirs))[0]
        assert (TASKS, Send("b", 1)) in writes_of(PAIR, A, Command(goto=["c", theirs]))[0]
        assert branch_targets(PAIR, "a", branch, [theirs, "b"]) == [
            (TASKS, Send("b", 1)),
            ("branch:to:b", None),
        ]

    def branch(self) -> BranchPlan:
        """A branch of `a` that reads the log."""

        def path(state: Any) -> Any:
            return None

        builder = GraphBuilder(State)
        for name in "ab":
            builder.add_node(name, idle)
        builder.add_edge(START, "a").add_conditional_edges("a", path)
        (branch,) = make_plan(builder, name="g").nodes["a"].branches
        return branch

    def test_a_router_sees_all_writes_of_its_task(self):
        """
        Several writes to one channel are folded together, in their order.
        """
        writes = [("log", ["1"]), ("log", ["2"]), ("branch:to:b", None)]

        assert branch_view(PAIR, {"log": ["0"]}, self.branch(), writes) == {"log": ["0", "1", "2"]}
        with pytest.raises(InvalidUpdateError, match="At key 'text'"):
            branch_view(PAIR, {}, self.branch(), [("text", "1"), ("text", "2")])

    def test_a_router_sees_keys_that_its_node_alone_has(self):
        """
        Keys outside of its view come as the node returned them; the view wins where both have one.
        """
        branch = dataclasses.replace(self.branch(), own_keys=frozenset({"mine", "log"}))
        writes = [("mine", 1), ("theirs", 2), ("log", ["1"])]

        seen = branch_view(PAIR, {"log": ["0"]}, branch, writes)
        assert seen == {"mine": 1, "log": ["0", "1"]}
        coerced = dataclasses.replace(branch, coerce=dict)
        assert branch_view(PAIR, {"log": ["0"]}, coerced, writes) == {"log": ["0", "1"]}

    @pytest.mark.parametrize(
        ("returned", "passed"),
        [
            ({"text": "x", "mine": 1}, {"mine": 1}),
            ({"text": "x"}, {}),
            (None, {}),
            (3, {}),
            ([("mine", 1)], {}),
        ],
    )
    def test_keys_without_a_channel_are_passed_on_from_a_dict(self, returned, passed):
        """
        Other return values have none, and in a graph over one value a dict is the value.
        """
        assert passed_on(A, returned) == passed
        assert passed_on(chain(dict, "a").nodes["a"], returned) == {}

    @pytest.mark.parametrize("takes_more", [True, False])
    def test_keys_without_a_channel_are_seen_by_routers_that_take_them(self, takes_more):
        """
        The view wins where both have a key; without such keys it stays as it is.
        """
        branch = dataclasses.replace(self.branch(), takes_more=takes_more)
        more = {"mine": 1} if takes_more else {}

        seen = branch_view(PAIR, {"log": ["0"]}, branch, [], {"mine": 1, "log": "hidden"})
        assert seen == {**more, "log": ["0"]}
        assert branch_view(PAIR, {"log": ["0"]}, branch, []) == {"log": ["0"]}

    def test_langgraphs_overwrites_are_read(self):
        """
        One in a dict of known keys is ours in the write.
        """
        types = pytest.importorskip("langgraph.types", reason="needs LangGraph")
        writes, _ = writes_of(PAIR, A, {"log": types.Overwrite(["x"])})

        assert writes == [("log", Overwrite(["x"])), *A.targets]
        assert type(writes[0][1]) is Overwrite


class Late(TypedDict, total=False):
    text: str
    late: Annotated[int, LastValueAfterFinish]
    log: Annotated[list[str], operator.add]


def test_a_view_has_values_as_readers_see_them():
    """
    A cell that differs from its value is read by its rule; managed keys have no rule.
    """
    plan = chain(Late, "a")
    rule = plan.channels["late"]
    value = rule.fold("late", EMPTY, [7])
    keys = ("text", "late", "left")

    values = {"text": "x", "late": value, "left": 3}
    assert view(plan, values, keys, None) == {"text": "x", "left": 3}
    values["late"] = rule.finish(value)
    assert view(plan, values, keys, None) == {"text": "x", "late": 7, "left": 3}
    assert view(plan, {"text": "x"}, keys, None) == {"text": "x"}


def test_a_schema_without_a_name_is_shown_itself():
    """
    The error about a view names what was to be made of it.
    """
    with pytest.raises(InvalidUpdateError, match=r"made into functools\.partial\(<class 'int'>"):
        view(PAIR, {"text": "x"}, ("text",), functools.partial(int))


class TestStepTimeouts:
    def test_that_come_late_mean_nothing(self):
        """
        That of an earlier superstep, of a run that leaves, and of one whose tasks have ended.
        """
        run = three()
        step = run.state.step
        assert on_step_timeout(run.state, step) is not None
        assert on_step_timeout(run.state, step - 1) is None
        run.cancel()
        assert on_step_timeout(run.state, step) is None
        run = three()
        for name in "abc":
            run.finish(name, log=[name])
        run.state.due.clear()
        assert on_step_timeout(run.state, run.state.step) is None

    def test_count_for_tasks_that_have_not_started(self):
        """
        A superstep whose tasks wait for a save has a time limit too.
        """
        run = Script(chain(State, "a"), step_timeout_s=1.0)
        run.begin({"text": "x"})
        assert not run.state.running

        assert on_step_timeout(run.state, run.state.step) is not None


class TestPauses:
    def state(self, seen: dict[str, int] | None) -> RunState:
        """A state with one version, which a pause may have seen."""
        state = RunState(PAIR, RunPolicy(), Store().mint, has_saver=True)
        state.versions = {"text": 2}
        if seen is not None:
            state.seen = {"__interrupt__": seen}
        return state

    @pytest.mark.parametrize(
        ("names", "seen", "paused"),
        [
            ((), None, False),
            (("a",), None, True),
            (("b",), None, False),
            (("*",), None, True),
            (("a",), {"text": 2}, False),
            (("a",), {"text": 1}, True),
            (("a",), {"log": 2}, True),
        ],
    )
    def test_need_a_named_node_and_a_change_since_the_last(self, names, seen, paused):
        """
        Each channel's version counts against the one that the last pause has seen.
        """
        assert pauses(self.state(seen), names, list(three().running.values())[:1]) is paused


def test_the_fixed_id_of_a_checkpoint_never_changes():
    """
    It is part of the ids of stored questions; a name that UTF-8 can't encode has one too.
    """
    assert fixed_id("a:1", bytes(16), 3).hex() == "00000000000060008003642b128647e7"
    assert fixed_id("\ud800", bytes(16), 3) != fixed_id("\ud801", bytes(16), 3)
