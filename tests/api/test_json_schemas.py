"""The description of a compiled graph: parts and JSON schemas."""

import json
import operator
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from actorgraph import (
    START,
    GraphBuildError,
    InMemorySaver,
    NodeBuilder,
    Pregel,
    RemainingSteps,
    StateGraph,
    entrypoint,
)
from actorgraph.channels import EphemeralValue, LastValue


class Part(BaseModel):
    size: int


class State(TypedDict):
    count: int
    the_log: Annotated[list[str], operator.add]
    note: NotRequired[str]
    steps: RemainingSteps


@dataclass
class Data:
    count: int
    the_log: Annotated[list[str], operator.add] = field(default_factory=list)
    note: str = "none"


class Struct(msgspec.Struct):
    count: int
    the_log: Annotated[list[str], operator.add] = msgspec.field(default_factory=list)
    note: str = "none"


class Model(BaseModel):
    count: int
    the_log: Annotated[list[str], operator.add] = Field(default_factory=list)
    note: str = "none"


class Input(TypedDict):
    count: int


class Output(TypedDict):
    the_log: list[str]


@dataclass
class Context:
    user: str


def compiled(schema=State, **schemas):
    builder = StateGraph(schema, **schemas).add_node("node", lambda s: None)
    return builder.add_edge(START, "node").compile()


def properties(schema):
    return {key: entry.get("type") for key, entry in schema["properties"].items()}


class TestJsonSchemas:
    @pytest.mark.langgraph("F-A21")
    @pytest.mark.parametrize("source", [State, Data, Struct, Model])
    def test_every_kind_of_class_is_described(self, source):
        """
        Keys with their types, and the required ones; callers can't give managed values.
        """
        described = compiled(source).get_input_jsonschema()

        assert described["title"] == source.__name__
        assert properties(described) == {
            "count": "integer",
            "the_log": "array",
            "note": "string",
        }
        assert described["properties"]["the_log"]["title"] == "The Log"
        expected = ["count", "the_log"] if source is State else ["count"]
        assert described["required"] == expected

    @pytest.mark.langgraph("F-A21")
    def test_defaults_are_in_the_schema(self):
        """
        A default that JSON can express is in the schema.
        """
        for source in (Data, Struct):
            described = compiled(source).get_output_jsonschema()["properties"]
            assert (described["note"]["default"], described["the_log"]["default"]) == ("none", [])

    @pytest.mark.langgraph("F-A21")
    def test_input_output_and_context_have_their_own(self):
        """
        Each describes the class that it was declared with.
        """
        graph = compiled(input_schema=Input, output_schema=Output, context_schema=Context)

        assert list(graph.get_input_jsonschema()["properties"]) == ["count"]
        assert list(graph.get_output_jsonschema()["properties"]) == ["the_log"]
        assert list(graph.get_state_jsonschema()["properties"]) == ["count", "the_log", "note"]
        assert graph.get_context_jsonschema()["required"] == ["user"]
        assert compiled().get_context_jsonschema() is None

    @pytest.mark.langgraph("F-A21")
    def test_the_config_has_the_context_as_its_configurable(self):
        """
        `get_config_jsonschema` describes it, and the other keys that it is asked for.
        """
        described = compiled(context_schema=Context).get_config_jsonschema(include=["tags"])

        assert described["properties"]["configurable"]["required"] == ["user"]
        assert described["properties"]["tags"]["type"] == "array"
        assert compiled().get_config_jsonschema()["properties"] == {}

    @pytest.mark.langgraph("F-A21")
    def test_a_graph_over_one_value_is_described_by_its_type(self):
        """
        A bare type has no keys.
        """
        assert compiled(int).get_input_jsonschema() == {
            "title": "LangGraphInput",
            "type": "integer",
        }

    def test_any_type_may_be_in_a_state(self):
        """
        Models inside are described by reference; a type without a description may be anything.
        """

        class Mixed(TypedDict):
            part: Part
            either: Part | int
            strange: object
            anything: Any

        described = compiled(Mixed).get_input_jsonschema()

        assert described["$defs"]["Part"]["properties"]["size"]["type"] == "integer"
        assert described["properties"]["strange"] == {"title": "Strange"}

    @pytest.mark.langgraph("F-A18", "F-A21")
    def test_a_pregel_is_described_by_its_channels(self):
        """
        One name is a bare value, a list a dict with optional keys.
        """
        declared = {
            "nodes": {"n": NodeBuilder().subscribe_only("a").write_to("b")},
            "channels": {"a": EphemeralValue(str), "b": LastValue(int)},
        }
        bare = Pregel(**declared, input_channels="a", output_channels="b")
        dicts = Pregel(**declared, input_channels=["a"], output_channels=["b"])

        assert bare.get_input_jsonschema() == {"title": "LangGraphInput", "type": "string"}
        assert bare.get_output_jsonschema()["type"] == "integer"
        assert properties(dicts.get_input_jsonschema()) == {"a": "string"}
        assert properties(dicts.get_state_jsonschema()) == {"a": "string", "b": "integer"}

    def test_no_pydantic_is_needed(self):
        """
        Plain classes are described without it being imported.
        """
        program = (
            "import sys\n"
            "from typing import TypedDict\n"
            "from actorgraph import StateGraph\n"
            "class S(TypedDict):\n    a: int\n    b: object\n"
            "g = StateGraph(S).add_node('n', lambda s: s).add_edge('__start__', 'n').compile()\n"
            "print(list(g.get_input_jsonschema()['properties']), 'pydantic' in sys.modules)\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

        assert ran.stdout.decode().strip() == "['a', 'b'] False"


class TestParts:
    @pytest.mark.langgraph("F-A15", "F-A21")
    def test_a_compiled_graph_shows_its_parts(self):
        """
        Names, channels, nodes, saver and builder can be read from it.
        """
        saver = InMemorySaver()
        builder = StateGraph(State, Context, input_schema=Input, output_schema=Output)
        builder.add_node("node", lambda s: None).add_edge(START, "node")
        graph = builder.compile(saver, name="named")

        assert (graph.name, graph.builder, graph.checkpointer) == ("named", builder, saver)
        assert (graph.store, graph.config) == (None, None)
        assert list(graph.nodes) == [START, "node"]
        assert {"count", "the_log", START, "branch:to:node"} <= set(graph.channels)
        assert graph.input_channels == START
        assert graph.output_channels == ["the_log"]
        assert graph.stream_channels == ["count", "the_log", "note"]
        assert graph.InputType is Input
        assert graph.context_schema is Context
        assert builder.state_schema is State
        assert (builder.input_schema, builder.output_schema) == (Input, Output)

    @pytest.mark.langgraph("F-A1")
    def test_a_graph_over_one_value_shows_one_key(self):
        """
        Its state has no names.
        """
        graph = compiled(int)

        assert (graph.output_channels, graph.stream_channels) == ("__root__", "__root__")

    @pytest.mark.langgraph("F-A18")
    def test_a_pregel_shows_what_it_was_given(self):
        """
        Names alone stay names, lists stay lists.
        """
        graph = Pregel(
            nodes={"n": NodeBuilder().subscribe_only("a").write_to("b")},
            channels={"a": EphemeralValue(str), "b": LastValue(int)},
            input_channels="a",
            output_channels=["b"],
            name="raw",
        )

        assert (graph.name, graph.input_channels, graph.output_channels) == ("raw", "a", ["b"])
        assert graph.stream_channels == ["a", "b"]


@pytest.mark.parametrize("name", [5, b"flow", ["flow"]])
def test_a_name_must_be_a_string(name):
    """
    `compile` refuses a graph's name that isn't text.
    """
    builder = StateGraph(State).add_node("n", lambda state: None).add_edge(START, "n")
    with pytest.raises(GraphBuildError, match="name must be a string"):
        builder.compile(name=name)


class Inner(BaseModel):
    size: int = 1


class Keys(TypedDict):
    parts: list[Inner]
    name: str


@dataclass
class Record:
    part: Inner


class Structure(msgspec.Struct, rename="camel"):
    one_record: Record


@pytest.mark.parametrize(
    "kind", [Inner, Keys, Record, Structure, list[Inner] | None, list[Record] | None]
)
def test_schemas_of_entrypoints_describe_all_that_they_name(kind):
    """
    Every `$ref` leads to a definition of the same schema, and no class is "anything".
    """

    def typed(given: kind) -> kind:
        return given

    flow = entrypoint()(typed)
    for described in (flow.get_input_jsonschema(), flow.get_output_jsonschema()):
        named = set(re.findall(r"#/\$defs/(\w+)", json.dumps(described)))
        assert named <= described.get("$defs", {}).keys()
        assert {"properties", "anyOf"} & described.keys()
    if kind is Structure:
        assert list(flow.get_input_jsonschema()["properties"]) == ["oneRecord"]
        assert list(flow.get_output_jsonschema()["properties"]) == ["one_record"]
