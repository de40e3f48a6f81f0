"""Names that savers and stores of other distributions import and call, beside LangGraph's own."""

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from collections import deque
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import get_checkpoint_metadata as their_metadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as Theirs
from langgraph.types import Interrupt as TheirInterrupt
from langgraph.types import Send as TheirSend
from pydantic import BaseModel

from actorgraph import START, BaseCheckpointSaver, InMemorySaver, Interrupt, Send, StateGraph
from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerCodec, codec_of
from actorgraph.compat.parts.json_plus import JsonPlusSerializer, maybe_add_typed_methods
from actorgraph.compat.parts.saver_names import get_checkpoint_metadata
from actorgraph.errors import InvalidConfigError, SerializationError
from tests.support.layer import both_ways, over_layer


@dataclasses.dataclass
class Order:
    item: str
    count: int


class Colour(enum.Enum):
    RED = 1


class Shade(enum.Enum):
    DARK = 1


VALUES = [
    None,
    b"bytes",
    bytearray(b"array"),
    {"a": [1, 2.5, "text", True, None]},
    [HumanMessage("hello", id="1"), AIMessage("there", id="2")],
    dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
    dt.timedelta(days=1, seconds=2),
    uuid.UUID(int=5),
    decimal.Decimal("1.50"),
    {1, 2},
    frozenset({"a"}),
    deque([1, 2]),
    Path("/tmp/x"),  # noqa: S108 - no file
    Order("tea", 2),
    Colour.RED,
    (1, 2),
]


class TestJsonPlusSerializer:
    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_its_values_come_back(self, value):
        """
        Each value is read as it was written, of the same type.
        """
        serde = JsonPlusSerializer()
        serde.learn([Order, Colour])

        found = serde.loads_typed(serde.dumps_typed(value))

        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize("value", VALUES[:-1], ids=lambda value: type(value).__name__)
    def test_values_that_langgraph_has_written_are_read(self, value):
        """
        A database that a saver has filled under LangGraph can be read over the layer.
        """
        serde = JsonPlusSerializer(allowed_msgpack_modules=[Order, (__name__, "Colour")])

        found = serde.loads_typed(Theirs().dumps_typed(value))

        assert found == value
        assert type(found) is type(value)

    def test_objects_of_langgraph_become_ours(self):
        """
        Its Sends and Interrupts are read as actorgraph's.
        """
        stored = Theirs().dumps_typed([TheirSend("n", 1), TheirInterrupt("ask", id="i")])

        assert JsonPlusSerializer().loads_typed(stored) == [Send("n", 1), Interrupt("ask", "i")]

    def test_a_type_that_a_graph_declares_is_read_by_each(self):
        """
        A serializer that a package keeps for itself reads the types of the program's graphs, too.
        """

        class State(TypedDict):
            colour: Shade

        graph = StateGraph(State).add_node("n", lambda s: s).add_edge(START, "n").compile()

        assert graph is not None
        assert JsonPlusSerializer().loads_typed(Theirs().dumps_typed(Shade.DARK)) is Shade.DARK

    def test_a_type_that_is_not_declared_is_named(self):
        """
        A class that neither the graph nor the program allows is refused, with its name.
        """
        stored = Theirs().dumps_typed(Order("tea", 2))

        with pytest.raises(SerializationError, match=r"Order.*\n.*allowed_msgpack_modules"):
            JsonPlusSerializer().loads_typed(stored)

    @pytest.mark.parametrize("form", ["pickle", "msgpack+aes"])
    def test_other_forms_are_refused(self, form):
        """
        Pickled and encrypted values are not read.
        """
        with pytest.raises(SerializationError, match="another serializer wrote"):
            JsonPlusSerializer().loads_typed((form, b"x"))

    @pytest.mark.parametrize(
        "options",
        [
            {"pickle_fallback": True},
            {"allowed_msgpack_modules": [("nowhere", "Order")]},
            {"allowed_json_modules": [(__name__, "Nothing")]},
        ],
    )
    def test_wrong_settings_are_refused_when_it_is_made(self, options):
        """
        Pickles, and classes that don't exist, are an error before anything is stored.
        """
        with pytest.raises(InvalidConfigError):
            JsonPlusSerializer(**options)

    def test_json_text_of_older_savers(self):
        """
        `dumps` gives JSON text for plain data, and `loads` reads it.
        """
        serde = JsonPlusSerializer()

        assert serde.loads(serde.dumps({"source": "loop", "step": 1})) == {
            "source": "loop",
            "step": 1,
        }
        assert serde.dumps({"step": 1}).decode().strip() == '{"step":1}'

    def test_an_allow_list_makes_a_copy(self):
        """
        `with_msgpack_allowlist` leaves the serializer itself as it was.
        """
        serde = JsonPlusSerializer()

        more = serde.with_msgpack_allowlist([(__name__, "Order")])

        assert (more.codec.types, serde.codec.types) == ((Order,), ())

    def test_a_saver_of_ours_takes_its_codec(self):
        """
        A plain one is replaced by its codec; a subclass that encodes itself is called.
        """

        class Own(JsonPlusSerializer):
            def dumps_typed(self, obj):
                return "own", repr(obj).encode()

            def loads_typed(self, data):
                return data[1].decode()

        assert type(codec_of(None, JsonPlusSerializer())) is Codec
        own = codec_of(None, Own())
        assert isinstance(own, SerializerCodec)
        assert own.decode(own.encode(1)) == "1"

    def test_typed_methods_are_added(self):
        """
        A serializer with `dumps` and `loads` alone gets the typed ones; others stay as they are.
        """

        class Old:
            def dumps(self, obj):
                return str(obj).encode()

            def loads(self, data):
                return int(data)

        typed = maybe_add_typed_methods(Old())
        ours = JsonPlusSerializer()

        assert typed.loads_typed(typed.dumps_typed(5)) == 5
        assert maybe_add_typed_methods(ours) is ours


class TestMetadata:
    @pytest.mark.parametrize(
        "config",
        [
            {},
            {"metadata": {"a": 1, "b": "x\0y", "c": [1], "source": "mine", "__d": 1}},
            {"configurable": {"thread_id": "t", "user": "u", "flag": True, "checkpoint_ns": ""}},
            {"metadata": {"a": 1}, "configurable": {"a": 2, "f": 1.5, "none": None}},
        ],
    )
    def test_it_is_joined_as_langgraph_does(self, config):
        """
        A saver's metadata get the same keys from a config.
        """
        given = {"source": "loop", "step": 1, "text": "a\0b", "writes": {"n": 1}}

        assert get_checkpoint_metadata(config, given) == their_metadata(config, given)


NAMES = """
from langgraph.checkpoint.base import WRITES_IDX_MAP, LATEST_VERSION, writes_sort_key
from langgraph.checkpoint.base import EXCLUDED_METADATA_KEYS, get_serializable_checkpoint_metadata
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS
from langgraph.runtime import CONFIG_KEY_RUNTIME, DEFAULT_RUNTIME
from langgraph.store.base import _ensure_refresh, _ensure_ttl, validate_op_namespace
from langgraph.store.base import NOT_PROVIDED, GetOp, PutOp, SearchOp, InvalidNamespaceError
from langgraph.store.base.embed import ensure_embeddings, get_text_at_path, tokenize_path
from langgraph._internal import _constants
print(WRITES_IDX_MAP, LATEST_VERSION, writes_sort_key("p", "t", 1), sorted(EXCLUDED_METADATA_KEYS))
print(ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS, CONFIG_KEY_RUNTIME)
print(DEFAULT_RUNTIME.context, DEFAULT_RUNTIME.store, DEFAULT_RUNTIME.stream_writer(1))
print(get_serializable_checkpoint_metadata({}, {"writes": 1, "step": 2}))
print([_ensure_ttl(*a) for a in ((None,), ({"default_ttl": 5},), ({"default_ttl": 5}, None))])
print([_ensure_refresh(*a) for a in ((None,), ({"refresh_on_read": False},), ({}, False))])
for op in (GetOp(("a",), "k"), PutOp(("a.b",), "k", {}), SearchOp(("",)), GetOp((1,), "k")):
    try:
        print(validate_op_namespace(op))
    except InvalidNamespaceError as error:
        print("refused")
print(tokenize_path("a.b[*].c"), get_text_at_path({"a": {"b": ["x", "y"]}}, "a.b[*]"))
print([getattr(_constants, n) for n in ("ERROR INPUT INTERRUPT NO_WRITES NS_END NS_SEP "
    "NULL_TASK_ID PREVIOUS PULL PUSH RESUME RETURN TASKS CONF CONFIG_KEY_READ CONFIG_KEY_SEND "
    "CONFIG_KEY_THREAD_ID CONFIG_KEY_CHECKPOINT_ID CONFIG_KEY_CHECKPOINT_NS "
    "CONFIG_KEY_CHECKPOINT_MAP").split()])
"""

AGENTS = """
import asyncio
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.chat_agent_executor import (
    _get_prompt_runnable, _get_state_value, _validate_chat_history)

class Object:
    messages = ["m"]

print(_get_state_value({"a": 1}, "a"), _get_state_value(Object(), "b", 5))
state = {"messages": [HumanMessage("hi", id="1")]}
async def awaits(state):
    return ["awaited"]
for prompt in (None, "text", SystemMessage("own"), lambda state: ["made"]):
    print([getattr(m, "content", m) for m in _get_prompt_runnable(prompt).invoke(state)])
print(asyncio.run(_get_prompt_runnable(awaits).ainvoke(state)))
call = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "c"}])
for history in ([call], [call, ToolMessage("x", tool_call_id="c")]):
    try:
        print(_validate_chat_history(history))
    except ValueError as error:
        print(str(error).splitlines()[0][:90])
try:
    _get_prompt_runnable(5)
except ValueError as error:
    print(error)

@tool
def t(x: int) -> str:
    "t"
    return str(x)

node = ToolNode([t], handle_tool_errors=False)
print(sorted(node._tools_by_name), node._handle_tool_errors)
"""

BASE = """
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

def config(id):
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id}}

def point(values):
    return {**empty_checkpoint(), "channel_values": values}

class Chain(BaseCheckpointSaver):
    ROWS = {
        "3": CheckpointTuple(config("3"), point({}), {}, config("2"), [("t3", "a", 9)]),
        "2": CheckpointTuple(
            config("2"), point({}), {}, config("1"), [("t2", "a", 2), ("t2", "b", 5)]),
        "1": CheckpointTuple(config("1"), point({"a": "seed"}), {}, config("0"), [("t1", "a", 1)]),
        "0": CheckpointTuple(config("0"), point({}), {}, None, [("t0", "b", 4)]),
    }
    def get_tuple(self, asked):
        return self.ROWS.get(asked["configurable"]["checkpoint_id"])

found = Chain().get_delta_channel_history(config=config("3"), channels=["a", "b"])
print(found["a"], found["b"])
print(Chain().get_delta_channel_history(config=config("9"), channels=["a"]))
print(Chain().get_delta_channel_history(config=config("3"), channels=[]))
saver = Chain()
print(isinstance(saver.with_allowlist([("fractions", "Fraction")]), Chain), saver.config_specs)
for name in ("delete_for_runs", "copy_thread", "prune"):
    print(hasattr(saver, name), hasattr(saver, "a" + name))
"""


class TestNames:
    @pytest.mark.parametrize("program", [NAMES, AGENTS, BASE], ids=["names", "agents", "base"])
    def test_they_do_what_langgraphs_do(self, program):
        """
        A program that prints what they return prints the same over both libraries.
        """
        ours, theirs = both_ways(program)

        assert ours == theirs

    def test_types_for_signatures(self):
        """
        Names that are imported for annotations and checks are there, each under its name.
        """
        lines = over_layer(
            """
            from langgraph.cache.base import BaseCache, FullKey, Namespace, ValueT
            from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite, V
            from langgraph.checkpoint.serde.base import SerializerCompat, UntypedSerializerProtocol
            from langgraph.checkpoint.serde.jsonplus import InvalidModuleError
            from langgraph.checkpoint.serde.types import ChannelProtocol, SendProtocol
            from langgraph.checkpoint.serde.types import _DeltaSnapshot
            from langgraph.func import Pregel
            from langgraph.graph._branch import BranchSpec
            from langgraph.graph._node import StateNode, StateNodeSpec
            from langgraph.graph.message import Messages
            from langgraph.graph.state import StateNode
            from langgraph.pregel._read import PregelNode
            from langgraph.types import Send
            print(isinstance(Send("n", 1), SendProtocol), _DeltaSnapshot(5).value)
            from langgraph.graph import START, StateGraph
            made = StateGraph(dict).add_node("n", lambda s: s).add_edge(START, "n")
            print(isinstance(made.nodes["n"], StateNodeSpec), isinstance(made.compile(), Pregel))
            print(isinstance(made.compile().nodes["n"], PregelNode))
            """
        )

        assert lines == ["True 5", "True True", "True"]


class TestSavers:
    def test_ours_are_of_the_base_class(self):
        """
        `isinstance` and a pydantic field of LangGraph's base class take a saver of actorgraph.
        """

        class Settings(BaseModel, arbitrary_types_allowed=True):
            checkpointer: BaseCheckpointSaver[Any]

        saver = InMemorySaver()

        assert isinstance(saver, BaseCheckpointSaver)
        assert Settings(checkpointer=saver).checkpointer is saver
        assert not isinstance(object(), BaseCheckpointSaver)

    def test_ours_let_more_classes_in(self):
        """
        `with_allowlist` of a saver of actorgraph adds classes to its codec.
        """
        saver = InMemorySaver()

        assert saver.with_allowlist([(__name__, "Order")]) is saver
        assert saver.codec.types == (Order,)

    def test_one_without_a_serializer_gets_one_that_reads_langgraphs(self):
        """
        Over the layer each saver has a serializer of its own, which a graph teaches its types.
        """
        lines = over_layer(
            """
            from dataclasses import dataclass
            from typing import Any, TypedDict
            from langgraph.checkpoint.base import BaseCheckpointSaver
            from langgraph.checkpoint.memory import InMemorySaver
            from langgraph.graph import START, StateGraph

            @dataclass
            class Order:
                item: str

            class State(TypedDict):
                order: Order

            class Own(BaseCheckpointSaver):
                def __init__(self):
                    super().__init__()
                    self.kept = InMemorySaver()
                    self.encode = self.serde.dumps_typed
                def put(self, *given): return self.kept.put(*given)
                def put_writes(self, *given): return self.kept.put_writes(*given)
                def get_tuple(self, config): return self.kept.get_tuple(config)
                def list(self, *given, **more): return self.kept.list(*given, **more)

            class Other(Own):
                serde = "of the class"
                def __init__(self):
                    BaseCheckpointSaver.__init__(self)

            one, two = Own(), Own()
            StateGraph(State).add_node("n", lambda s: s).add_edge(START, "n").compile(one).invoke(
                {"order": Order("tea")}, {"configurable": {"thread_id": "t"}})
            print(type(one.serde).__name__, [kind.__name__ for kind in one.serde.codec.types])
            print(two.serde is one.serde, two.serde.codec.types, Other().serde)
            """
        )

        assert lines == ["JsonPlusSerializer ['Order']", "False () of the class"]
