"""Values that LangGraph's serializer has made, read without importing what they name."""

import dataclasses
import datetime as dt
import enum
import ipaddress
import json
import re
from collections import deque
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import langchain_core.messages as lc
import pydantic
import pydantic.v1
import pytest
from langchain_core.documents import Document
from langgraph import types as lg_types
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item

from actorgraph import Command, Interrupt, Overwrite, Send
from actorgraph.messages import AIMessage, HumanMessage
from actorgraph.migrate.decode import Decoder

SERDE = JsonPlusSerializer()


@dataclasses.dataclass
class Order:
    item: str
    count: int = 1


class Model(pydantic.BaseModel):
    inner: dict[str, int]


class Old(pydantic.v1.BaseModel):
    name: str


class Pair(NamedTuple):
    a: int
    b: int


class Color(enum.Enum):
    RED = "r"


def read(value, *types, langchain=None):
    """A value through LangGraph's serializer and our decoder."""
    decoder = Decoder(types, langchain)
    found = decoder.read(*SERDE.dumps_typed(value), "v")
    return found, decoder.unknown


@pytest.mark.langgraph("F-E18")
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"bytes",
        1,
        1.5,
        "text",
        [1, [2]],
        {"a": {1: 2}},
        {1, 2},
        frozenset({3}),
        deque([1]),
        UUID(int=7),
        Decimal("1.50"),
        Path("/a/b"),
        ZoneInfo("Europe/Paris"),
        dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        dt.date(2026, 1, 2),
        dt.time(3, 4, 5),
        dt.timedelta(days=1, seconds=2),
        dt.timezone(dt.timedelta(hours=2)),
        ipaddress.ip_address("1.2.3.4"),
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_interface("::1/64"),
        pydantic.SecretStr("x"),
    ],
)
def test_plain_values_come_back(value):
    """
    Plain types stored by LangGraph come back equal and of their type.
    """
    found, unknown = read([value])

    assert (found, unknown) == ([value], [])
    assert type(found[0]) is type(value)
    assert read(value) == (value, [])


def test_classes_of_libraries_that_are_always_known():
    """
    A document and a store's item come back without being named.
    """
    now = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    item = Item(value={"a": 1}, key="k", namespace=("n",), created_at=now, updated_at=now)

    assert read([Document("text", metadata={"a": 1}), item]) == (
        [Document("text", metadata={"a": 1}), item],
        [],
    )


def test_regular_expressions_and_models_of_pydantic_1():
    """
    A regular expression comes back if `re.Pattern` is named, and a model of pydantic 1 by its name.
    """
    assert read([re.compile("a", re.IGNORECASE)], re.Pattern) == (
        [re.compile("a", re.IGNORECASE)],
        [],
    )
    assert read(re.compile("a"))[1] == ["v: it has the type 're.compile'"]
    assert read([Old(name="x")], Old) == ([Old(name="x")], [])


@pytest.mark.parametrize("namespace", [["ask"], ["legacy:test", "with:complex", "name:space"]])
def test_a_question_of_an_old_langgraph_has_the_id_that_the_new_one_gives_it(namespace):
    """
    A question that was stored with its namespace, before it had an id, is answered by its id.
    """
    words = {"value": "?", "resumable": True, "ns": namespace, "when": "during"}
    stored = {"lc": 2, "type": "constructor", "id": ["langgraph", "types", "Interrupt"]}
    payload = json.dumps({**stored, "kwargs": words}).encode()
    decoder = Decoder()

    found = decoder.read("json", payload, "v")

    assert (found, decoder.unknown) == (Interrupt("?", lg_types.Interrupt(**words).id), [])


def test_objects_of_langgraph_become_ours():
    """
    Sends, questions, Commands and Overwrites are ours; a snapshot of a delta is its value.
    """
    theirs = [
        lg_types.Send("n", {"a": 1}),
        lg_types.Interrupt(value="?", id="i"),
        lg_types.Command(update={"a": 1}, goto="n"),
        lg_types.Overwrite(value=[1]),
        _DeltaSnapshot([1, 2]),
    ]

    found, unknown = read(theirs)

    assert unknown == []
    assert found == [
        Send("n", {"a": 1}),
        Interrupt("?", "i"),
        Command(update={"a": 1}, goto="n"),
        Overwrite([1]),
        [1, 2],
    ]


def test_the_users_types():
    """
    Types that the caller has named are built; any other is noted with its path, and not called.
    """
    value = {"o": Order("x", 2), "m": Model(inner={"a": 1}), "p": [Pair(1, 2)], "c": Color.RED}

    assert read(value, Order, Model, Pair, Color) == (value, [])
    found, unknown = read({"deep": [value]})
    assert found == {"deep": [{"o": None, "m": None, "p": [None], "c": None}]}
    assert unknown[0] == f"v['deep'][0]['o']: it has the type '{__name__}.Order'"
    assert len(unknown) == 4


def test_messages():
    """
    LangChain's messages come back as they are where it is installed, else as ours.
    """
    theirs = [
        lc.HumanMessage("hi", id="1"),
        lc.AIMessage("", id="2", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c"}]),
    ]

    assert read(theirs, langchain=lc) == (theirs, [])
    found, unknown = read(theirs)
    assert [type(m) for m in found] == [HumanMessage, AIMessage]
    assert (found[0].content, found[0].id) == ("hi", "1")
    assert found[1].tool_calls[0]["args"] == {"a": 1}
    assert unknown == []


def test_the_older_form():
    """
    Values that an old LangGraph has stored as JSON are read by the same rules.
    """
    text = (
        b'{"u": {"lc": 2, "type": "constructor", "id": ["uuid", "UUID"],'
        b' "args": ["00000000000000000000000000000007"]},'
        b' "m": {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages",'
        b' "HumanMessage"], "kwargs": {"content": "hi"}},'
        b' "x": {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["ls"]}}'
    )
    decoder = Decoder()

    found = decoder.read("json", text, "v")

    assert (found["u"], found["m"].content, found["x"]) == (UUID(int=7), "hi", None)
    assert decoder.unknown == ["v['x']: it has the type 'os.system'"]


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("pickle", b"x"),
        ("msgpack+aes", b"x"),
        ("msgpack", b"\xc1"),
        ("json", b"{"),
        ("msgpack", b"\xc7\x01\x63\x01"),
    ],
)
def test_unreadable_values_are_noted(form, data):
    """
    Pickles, encrypted values and damaged bytes are noted, never loaded.
    """
    decoder = Decoder()

    assert decoder.read(form, data, "v") is None
    assert decoder.unknown[0].startswith("v: ")
