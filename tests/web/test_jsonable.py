"""Values of graphs as JSON."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import ip_network
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from actorgraph import Interrupt
from actorgraph.messages import HumanMessage
from actorgraph.web.http.jsonable import dumps


@dataclass
class Point:
    x: int


class Model(BaseModel):
    at: datetime


class Row(msgspec.Struct):
    name: str


class Kind(Enum):
    A = "a"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Silent:
    def __repr__(self) -> str:
        return "<silent>"


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Point(1), {"x": 1}),
        (Model(at=MOMENT), {"at": "2026-01-02T00:00:00+00:00"}),
        (Row("a"), {"name": "a"}),
        (Kind.A, "a"),
        ({Kind.A: 1, 2: 3}, {"a": 1, "2": 3}),
        ((1, {2}), [1, [2]]),
        (timedelta(minutes=1), 60.0),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a"), "/a"),
        (ip_network("10.0.0.0/8"), "10.0.0.0/8"),
        (Text("x"), "x"),
        ({Text("k"): Number(3)}, {"k": 3}),
        (b"\x00\xff", "AP8="),
        (ValueError("no"), {"error": "ValueError", "message": "no"}),
        (Interrupt("why?", "1"), {"value": "why?", "id": "1"}),
        (Silent(), "<silent>"),
        (float("nan"), None),
        (2**60, str(2**60)),
        ("a\ud800", "a?"),
    ],
)
def test_each_type_has_a_form(value: Any, shown: Any):
    """
    Every value that a state may hold has a form in JSON, of parts where it has any.
    """
    assert json.loads(dumps(value)) == shown


def test_a_message_has_its_type():
    """
    Messages have the fields of LangChain's, and their type.
    """
    shown = json.loads(dumps([HumanMessage("hi", id="1")]))

    assert (shown[0]["type"], shown[0]["content"], shown[0]["id"]) == ("human", "hi", "1")


def test_recursive_values_are_cut():
    """
    A value without an end is shown to a depth.
    """
    endless: list[Any] = []
    endless.append(endless)

    assert b"<list>" in dumps(endless)


PLAIN_DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@pytest.mark.parametrize("examples", [30, pytest.param(300, marks=pytest.mark.long)])
def test_plain_data_stays_as_it_is(examples: int):
    """
    JSON's own values come out as they are.
    """

    @settings(max_examples=examples)
    @given(PLAIN_DATA)
    def stays(value: Any) -> None:
        assert json.loads(dumps(value)) == value

    stays()
