"""Answers by id, as they are checked before the run is accepted that brings them."""

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field

from actorgraph.errors import (
    AlreadyResumedError,
    InvalidConfigError,
    InvalidResumeError,
    UnknownInterruptError,
)
from actorgraph.plan.json_schema import json_schema
from actorgraph.superstep.answers import check_answers, with_answers
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.response_schemas import misfit

ONE, TWO, OTHER = "1" * 32, "2" * 32, "3" * 32
ASKED = [Interrupt("q", ONE, {"type": "boolean"}), Interrupt("r", TWO)]


class TestAcceptance:
    @pytest.mark.parametrize("given", [{ONE: True}, {TWO: "x"}, {ONE: False, TWO: None}])
    def test_answers_to_open_questions(self, given):
        """
        Answers to some or all of the open questions are accepted.
        """
        check_answers(given, ASKED, "t")

    @pytest.mark.parametrize(
        ("given", "error", "text"),
        [
            ({}, UnknownInterruptError, "name no interrupt"),
            ({"no": True}, UnknownInterruptError, "'no' is not the id of an interrupt"),
            ({ONE[:-1]: True}, UnknownInterruptError, "is not the id of an interrupt"),
            ({"A" * 32: True}, UnknownInterruptError, "is not the id of an interrupt"),
            ({1: True}, UnknownInterruptError, "1 is not the id"),
            ({ONE: True, "no": 1}, UnknownInterruptError, "'no' is not the id"),
            ({OTHER: True}, AlreadyResumedError, "no open question has the id '3333"),
            ({ONE: True, OTHER: 1}, AlreadyResumedError, "no open question has the id '3333"),
            ({ONE: "no"}, InvalidResumeError, r"expected boolean at \$, got str"),
        ],
    )
    def test_wrong_answers(self, given, error, text):
        """
        Wrong ids, questions that don't wait and answers that don't fit are refused, all at once.
        """
        with pytest.raises(error, match=text):
            check_answers(given, ASKED, "t")

    def test_a_command_goes_with_them(self):
        """
        Answers may come with an update and a goto, and not with another answer.
        """
        assert with_answers(None, {ONE: 1}) == Command(resume={ONE: 1})
        assert with_answers(Command(goto="a"), {ONE: 1}) == Command(resume={ONE: 1}, goto="a")
        with pytest.raises(InvalidConfigError, match="given twice"):
            with_answers(Command(resume=1), {ONE: 1})
        with pytest.raises(InvalidConfigError, match="given twice"):
            with_answers("yes", {ONE: 1})


class Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 1


@dataclass
class Order:
    items: list[Item]
    how: Literal["post", "van"]
    note: str | None = None


class Model(BaseModel):
    amount: int = Field(ge=1, le=9)
    tags: list[str] = Field(default_factory=list, max_length=2)


FITS: list[tuple[Any, Any]] = [
    (Order, {"items": [{"name": "a"}], "how": "van"}),
    (Order, {"items": [], "how": "post", "note": None, "more": 1}),
    (Order, Order([], "post")),
    (Model, {"amount": 3, "tags": ["a"]}),
    (Model, Model(amount=3)),
    (int, 3),
    (int, 3.0),
    (float, 3),
    ({"$ref": "https://elsewhere"}, 1),
    ({"type": "money"}, 1),
    ({"x-form": "fancy"}, object()),
    (None, 1),
]

MISFITS: list[tuple[Any, Any, str]] = [
    (Order, {"how": "van"}, "'items' is missing at $"),
    (Order, {"items": [{"name": 1}], "how": "van"}, "expected string at $.items[0].name, got int"),
    (Order, {"items": [], "how": "ship"}, "expected one of ['post', 'van'] at $.how, got 'ship'"),
    (Order, {"items": [], "how": "van", "note": 5}, "no form of anyOf fits at $.note"),
    (Order, "yes", "expected object at $, got str"),
    (Model, {"amount": 10}, "expected maximum 9 at $.amount, got 10"),
    (Model, {"amount": 0}, "expected minimum 1 at $.amount, got 0"),
    (Model, {"amount": 1, "tags": ["a", "b", "c"]}, "expected maxItems 2 at $.tags, got length 3"),
    (int, True, "expected integer at $, got bool"),
    (bool, 1, "expected boolean at $, got int"),
    ({"const": 1}, True, "expected one of [1] at $, got True"),
    ({"minLength": 2}, "a", "expected minLength 2 at $, got length 1"),
    ({"prefixItems": [{"type": "string"}]}, [1], "expected string at $[0], got int"),
    ({"allOf": [{"type": "string"}]}, 1, "expected string at $, got int"),
    ({"additionalProperties": {"type": "string"}}, {"a": 1}, "expected string at $.a, got int"),
    ({"additionalProperties": False}, {"a": 1}, "'a' is unknown at $"),
]


def schema_of(kind: Any) -> Any:
    if not isinstance(kind, type):
        return kind
    of_pydantic = issubclass(kind, BaseModel)
    return kind.model_json_schema() if of_pydantic else json_schema(kind, title=kind.__name__)


class TestSchemas:
    @pytest.mark.parametrize(("kind", "answer"), FITS)
    def test_answers_that_fit(self, kind, answer):
        """
        An answer that the type takes fits its schema, and so does all that isn't known to be wrong.
        """
        assert misfit(answer, schema_of(kind)) is None

    @pytest.mark.parametrize(("kind", "answer", "text"), MISFITS)
    def test_answers_that_do_not_fit(self, kind, answer, text):
        """
        An answer that the type refuses doesn't, and the text says where.
        """
        assert misfit(answer, schema_of(kind)) == text

    def test_a_schema_in_a_circle(self):
        """
        References that lead around end.
        """
        assert misfit(1, {"$ref": "#"}) is None
