"""The result of a node becomes the writes of its task, checked against the graph."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from actorgraph.errors import InvalidUpdateError, UnknownTargetError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.superstep.results import branch_targets, branch_view, writes_of
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import END, START, TASKS
from actorgraph.values.policies import Durability
from actorgraph.values.run import Failed, Succeeded
from tests.superstep.script import Script, graph, idle


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


@dataclass
class Data:
    text: str
    log: Annotated[list[str], operator.add]


class Model(BaseModel):
    text: str = "?"
    log: Annotated[list[str], operator.add] = []


class Struct(msgspec.Struct):
    text: str
    log: Annotated[list[str], operator.add]


def plan(schema: Any = State, **options: Any) -> Plan:
    nodes = dict.fromkeys(("draft", "review"), idle)
    return graph(schema, nodes, [(START, "draft"), ("draft", "review")], **options)


def written(returned: Any, schema: Any = State) -> list[Any]:
    """The writes of what `draft` returned, without its static edge."""
    p = plan(schema)
    writes, dropped = writes_of(p, p.nodes["draft"], returned)
    assert dropped == []
    assert writes[-1] == ("branch:to:review", None)
    return writes[:-1]


REVIEW = ("branch:to:review", None)
DRAFT = ("branch:to:draft", None)
SEND = Send("review", 1)


class TestForms:
    @pytest.mark.langgraph("F-A16", "F-C5", "L31")
    @pytest.mark.parametrize(
        ("returned", "writes"),
        [
            (None, []),
            ({}, []),
            ([], []),
            ({"text": "x", "log": ["y"]}, [("text", "x"), ("log", ["y"])]),
            ({"text": None}, [("text", None)]),
            ([("log", ["x"]), ("log", ["y"])], [("log", ["x"]), ("log", ["y"])]),
            ([{"log": ["x"]}, {"log": ["y"]}], [("log", ["x"]), ("log", ["y"])]),
            (Command(), []),
            (Command(update={"text": "x"}), [("text", "x")]),
            (Command(update=[("text", "x")]), [("text", "x")]),
            (Command(update={"text": "x"}, goto="draft"), [("text", "x"), DRAFT]),
            (Command(goto=["draft", SEND, END]), [DRAFT, (TASKS, SEND)]),
            (SEND, [(TASKS, SEND)]),
            ([SEND, {"text": "x"}, Command(goto="draft")], [(TASKS, SEND), ("text", "x"), DRAFT]),
            ((SEND, SEND), [(TASKS, SEND), (TASKS, SEND)]),
        ],
    )
    def test_each_form_of_return_is_read(self, returned, writes):
        """
        A dict, pairs, None, a Command, a Send, or a list of these: writes in the node's order,
        then the static edges.
        """
        assert written(returned) == writes

    @pytest.mark.langgraph("F-A16")
    @pytest.mark.parametrize("schema", [Data, Model, Struct])
    def test_an_object_of_the_schema_is_an_update(self, schema):
        """
        A node may return an object of its state's class, also inside a Command.
        """
        made = schema(text="x", log=["y"])

        assert written(made, schema) == [("text", "x"), ("log", ["y"])]
        assert written(Command(update=made), schema) == [("text", "x"), ("log", ["y"])]

    @pytest.mark.langgraph("F-A16")
    def test_a_models_defaults_are_not_an_update(self):
        """
        Of a pydantic model only the fields that were set are written.
        """
        assert written(Model(log=["y"]), Model) == [("log", ["y"])]
        assert written(Model(text="?"), Model) == [("text", "?")]

    @pytest.mark.langgraph("F-A16")
    def test_any_object_with_annotations_is_an_update(self):
        """
        Of a plain class with annotations the attributes that the object has are written.
        """

        class Base:
            text: str

        class Plain(Base):
            log: list[str]
            text: str

        made = Plain()
        made.log = ["y"]
        assert written(made) == [("log", ["y"])]
        made.text = "x"
        assert written(made) == [("text", "x"), ("log", ["y"])]

    @pytest.mark.langgraph("F-A16")
    @pytest.mark.parametrize(
        "returned", ["text", 3, ["text"], object(), State, {"text"}, Command(update=3)]
    )
    def test_anything_else_is_refused(self, returned):
        """
        A return value that isn't an update fails the task and says what to return.
        """
        with pytest.raises(InvalidUpdateError, match="Expected dict, got") as refused:
            written(returned)

        assert "'draft'" in refused.value.what
        assert refused.value.do.startswith("return a dict")

    @pytest.mark.parametrize(
        "value", [3, "text", {"a": 1}, [{"a": 1}, {"b": 2}], [1, 2], (1, 2), None]
    )
    def test_a_graph_over_one_value_takes_any_value(self, value):
        """
        In a graph over a bare type the returned value is the update, whatever it is; None is none.
        """
        writes = written(value, dict)

        assert writes == ([] if value is None else [("__root__", value)])

    def test_a_graph_over_one_value_takes_commands_and_sends(self):
        """
        Routes work in a graph over a bare type too.
        """
        assert written(Command(update={"a": 1}, goto="draft"), dict) == [
            ("__root__", {"a": 1}),
            DRAFT,
        ]
        assert written([SEND], dict) == [(TASKS, SEND)]


class TestUnknownKeys:
    @pytest.mark.promise("C29")
    def test_an_unknown_key_is_dropped_with_a_hint(self):
        """
        A key without a channel is dropped; a sentence names the node, the key and what is near.
        """
        p = plan()
        writes, dropped = writes_of(p, p.nodes["draft"], {"txet": "x", "log": ["y"]})

        assert writes == [("log", ["y"]), REVIEW]
        (sentence,) = dropped
        assert sentence.startswith("node 'draft' returned 'txet', which is not a channel")
        assert sentence.endswith("(did you mean 'text'?)")

    @pytest.mark.promise("C29")
    def test_a_strict_graph_refuses_it(self):
        """
        Under strict the same sentence is an error.
        """
        p = plan(strict=True)
        with pytest.raises(InvalidUpdateError, match="did you mean 'text'") as refused:
            writes_of(p, p.nodes["draft"], Command(update={"txet": "x"}))

        assert "known keys" in refused.value.do

    @pytest.mark.parametrize("key", ["branch:to:review", TASKS, "__interrupt__", START])
    def test_the_runtimes_own_channels_are_not_keys(self, key):
        """
        A node can't write an edge, a Send or a control channel by name.
        """
        p = plan()
        writes, dropped = writes_of(p, p.nodes["draft"], {key: "x"})

        assert writes == [REVIEW]
        assert len(dropped) == 1


class TestRoutes:
    @pytest.mark.promise("C29")
    @pytest.mark.langgraph("F-C5", "L117")
    @pytest.mark.parametrize(
        "returned",
        [
            Command(goto="reveiw"),
            Command(goto=[END, "reveiw"]),
            Command(update={"text": "x"}, goto=Send("reveiw", 1)),
            Send("reveiw", 1),
            [{"text": "x"}, Send("reveiw", 1)],
        ],
    )
    def test_an_unknown_target_fails_the_task(self, returned):
        """
        A route to a node that doesn't exist is an error with near matches.
        """
        with pytest.raises(UnknownTargetError, match="'draft' goes to 'reveiw'") as refused:
            written(returned)

        assert refused.value.do == "did you mean 'review'?"

    @pytest.mark.parametrize("target", [START, None, 3])
    def test_only_nodes_are_targets(self, target):
        """
        START and values that aren't names can't be gone to.
        """
        with pytest.raises(UnknownTargetError, match="which is not a node"):
            written(Command(goto=[target]))

    def test_end_takes_no_packet(self):
        """
        A Send to END is refused: no node would get it.
        """
        with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
            written(Send(END, 1))

    @pytest.mark.promise("C29")
    def test_nothing_of_the_task_is_written(self):
        """
        A task with a wrong route fails as a whole, and its update is not applied.
        """
        run = Script(graph(State, {"a": lambda s: None}, [(START, "a")]), Durability.SYNC)
        run.play({"text": "x"}, {"a": lambda s: Command(update={"text": "y"}, goto="nowhere")})

        assert isinstance(run.outcome, Failed)
        assert isinstance(run.outcome.error, UnknownTargetError)
        assert run.state.values["text"] == "x"
        assert [e.index for e in run.store.ledger if e.path == ("__pregel_pull", "a")] == [-1]

    @pytest.mark.promise("L29")
    @pytest.mark.langgraph("F-C5")
    def test_goto_adds_to_the_static_edges(self):
        """
        Command(goto=) runs its target beside what the edges lead to.
        """
        nodes = dict.fromkeys("abc", idle)
        run = Script(graph(State, nodes, [(START, "a"), ("a", "b")]), saver=False)
        run.begin({"text": "x"})
        run.finish("a", Command(goto="c"))

        assert run.names == ["b", "c"]


def branched(path: Any, path_map: Any = None, schema: Any = State) -> Plan:
    builder = GraphBuilder(schema)
    for name in ("draft", "review"):
        builder.add_node(name, idle)
    builder.add_edge(START, "draft").add_conditional_edges("draft", path, path_map)
    return make_plan(builder, name="g")


def targets(returned: Any, path_map: Any = None) -> list[Any]:
    p = branched(idle, path_map)
    return branch_targets(p, "draft", p.nodes["draft"].branches[0], returned)


class TestBranches:
    @pytest.mark.langgraph("F-A12")
    @pytest.mark.parametrize(
        ("returned", "path_map", "writes"),
        [
            ("review", None, [REVIEW]),
            (END, None, []),
            (["review", END, "draft"], None, [REVIEW, DRAFT]),
            (("review", "draft"), None, [REVIEW, DRAFT]),
            ([], None, []),
            (SEND, None, [(TASKS, SEND)]),
            ([SEND, "review"], {"review": "review"}, [(TASKS, SEND), REVIEW]),
            (True, {True: "review", False: END}, [REVIEW]),
            (False, {True: "review", False: END}, []),
            (["yes", "no"], {"yes": "review", "no": "draft"}, [REVIEW, DRAFT]),
        ],
    )
    def test_an_answer_makes_its_targets_due(self, returned, path_map, writes):
        """
        A branch's answer is a name, END, a Send, a key of its map, or a list of these.
        """
        assert targets(returned, path_map) == writes

    @pytest.mark.langgraph("F-A12")
    @pytest.mark.parametrize("returned", [None, [None], [START, "review"], START])
    def test_none_and_start_are_not_destinations(self, returned):
        """
        A branch that answers nothing is an error that names the branch and its node.
        """
        with pytest.raises(UnknownTargetError, match="did not return a valid destination") as no:
            targets(returned)

        assert "'idle' of node 'draft'" in no.value.what
        assert no.value.what.endswith(f"a valid destination: {returned!r}")

    @pytest.mark.promise("C29")
    @pytest.mark.parametrize(
        ("returned", "path_map", "advice"),
        [
            ("reveiw", None, "did you mean 'review'?"),
            ("yess", {"yes": "review"}, "did you mean 'yes'?"),
            ({"a": 1}, {"yes": "review"}, "the choices are 'yes'"),
            (["yes", "no"], {"yes": "review"}, "the choices are 'yes'"),
            (Send("reveiw", 1), {"yes": "review"}, "did you mean 'review'?"),
        ],
    )
    def test_an_answer_that_means_no_node_is_refused(self, returned, path_map, advice):
        """
        An answer outside the map, or no node's name, is an error with near matches.
        """
        with pytest.raises(UnknownTargetError) as refused:
            targets(returned, path_map)

        assert refused.value.do == advice

    @pytest.mark.promise("L24")
    @pytest.mark.langgraph("F-A12")
    def test_a_branch_sees_its_tasks_writes_and_not_its_siblings(self):
        """
        Two parallel nodes append; each one's branch sees its own item only.
        """
        seen: dict[str, list[str]] = {}
        builder = GraphBuilder(State)
        for name in "ab":
            builder.add_node(name, idle).add_edge(START, name)
            builder.add_conditional_edges(name, recorder(seen, name))
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"log": ["0"]})
        run.finish("a", log=["a"])
        run.finish("b", log=["b"])

        assert seen == {"a": ["0", "a"], "b": ["0", "b"]}
        assert run.outcome == Succeeded({"log": ["0", "a", "b"]})

    @pytest.mark.langgraph("F-A13", "F-A17")
    @pytest.mark.parametrize("schema", [Data, Model, Struct])
    def test_a_branch_sees_an_object_of_its_schema(self, schema):
        """
        A branch gets the state as the node's class.
        """
        p = branched(idle, schema=schema)
        (branch,) = p.nodes["draft"].branches
        view = branch_view(p, {"text": "x", "log": ["0"]}, branch, [("log", ["1"])])

        assert view == schema(text="x", log=["0", "1"])

    def test_an_in_place_reducer_does_not_reach_the_state_through_a_branch(self):
        """
        Showing a branch its task's writes changes no cell, even if the reducer works in place.
        """

        class InPlace(TypedDict):
            log: Annotated[list[str], operator.iadd]

        p = branched(idle, schema=InPlace)
        values = {"log": ["0"]}
        view = branch_view(p, values, p.nodes["draft"].branches[0], [("log", ["1"])])

        assert view == {"log": ["0", "1"]}
        assert values == {"log": ["0"]}


def recorder(seen: dict[str, list[str]], name: str) -> Any:
    """A branch that notes the log that it sees and ends."""

    def path(state: State) -> str:
        seen[name] = list(state["log"])
        return END

    return path
