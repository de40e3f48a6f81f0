"""Values of every kind that LangGraph's serializer stores: each comes back as well, or better."""

import importlib
import warnings
from typing import Any

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from actorgraph.codec import Codec
from actorgraph.codec.stored_types import name_of
from actorgraph.codec.subclasses import plain_value
from actorgraph.errors import SerializationError, UndeclaredTypeWarning, UnknownTypeError
from tests.codec.langgraph_values import EXACT, PLAIN, REFUSED, ROWS, Items, Mapped, Row
from tests.codec.shapes import same
from tests.support.known_types import restart

THEIRS = JsonPlusSerializer()
NAMES = [row.name for row in ROWS]


def is_equal(one: Any, two: Any) -> bool:
    """Whether two values are the same; of models the fields that were given don't matter."""
    if same(one, two):
        return True
    return isinstance(one, BaseModel) and type(one) is type(two) and one == two


def theirs(value: Any) -> tuple[str, Any]:
    """The result of LangGraph's serializer: EXACT, PLAIN or REFUSED, and the value."""
    try:
        made = THEIRS.loads_typed(THEIRS.dumps_typed(value))
    except Exception as error:  # noqa: BLE001 - it refuses by any of several classes
        return REFUSED, error
    return (EXACT if is_equal(made, value) else PLAIN), made


@pytest.fixture(autouse=True)
def without_warnings():
    """Types of this module are stored undeclared; the warning has a test of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndeclaredTypeWarning)
        yield


def test_the_table_has_every_kind():
    """
    At least 119 values are compared, under names of their own, and a difference has its reason.
    """
    assert len(ROWS) >= 119
    assert len(set(NAMES)) == len(ROWS)
    for row in ROWS:
        how, _ = theirs(row.value)
        assert (row.as_ in (EXACT, how)) != bool(row.why), row.name


@pytest.mark.langgraph("F-E18")
@pytest.mark.parametrize("form", ["msgpack", "json"])
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_each_value(row: Row, form):
    """
    A value that LangGraph stores exactly comes back exactly; one that LangGraph makes plain comes
    back as the same plain one, or exactly; one that is refused says what to store in its place.
    """
    codec = Codec(form=form)
    if row.as_ == REFUSED:
        with pytest.raises(SerializationError) as refused:
            codec.encode(row.value)
        assert refused.value.do
        return
    back = codec.decode(codec.encode(row.value))

    if row.as_ == EXACT:
        assert same(back, row.value)
    elif not row.why:
        assert is_equal(back, theirs(row.value)[1])
    else:
        assert type(back) in type(row.value).__mro__
        assert back == row.value


@pytest.mark.parametrize("row", [row for row in ROWS if row.as_ != REFUSED], ids=lambda r: r.name)
def test_each_value_after_a_restart(row: Row):
    """
    A process that has never seen a value's types reads it if they are built in, or a library's;
    else the error names each with the declaration, and with those declarations the value is read.
    """
    payload = Codec().encode(row.value)
    here = Codec().decode(payload)
    restart()
    missing: list[type] = []
    while len(missing) < len(row.needs):
        with pytest.raises(UnknownTypeError) as unknown:
            Codec(missing).decode(payload)
        name = unknown.value.type_name
        assert f"Codec(types=[{name.replace(':', '.')}])" in unknown.value.do
        missing += [kind for kind in row.needs if name_of(kind) == name]

    assert is_equal(Codec(missing).decode(payload), here)


@pytest.mark.parametrize("row", [row for row in ROWS if row.needs], ids=lambda r: r.name)
def test_a_strict_codec_wants_declarations(row: Row):
    """
    A strict codec refuses values of undeclared types with the declaration, and takes them with it.
    """
    with pytest.raises(SerializationError, match=r"Codec\(types=\["):
        Codec(strict=True).encode(row.value)
    codec = Codec(row.needs, strict=True)

    assert same(codec.decode(codec.encode(row.value)), row.value)


def test_buffers_in_containers_of_a_subclass():
    """
    A bytearray in a list or dict of a subclass comes back as one, and a memoryview is refused.
    """
    for value in (Items([bytearray(b"x")]), Mapped(a=[bytearray(b"x")])):
        assert same(Codec().decode(Codec().encode(value)), plain_value(value))
    with pytest.raises(SerializationError, match="memoryview"):
        Codec().encode(Items([memoryview(b"x")]))


def test_reading_imports_nothing(monkeypatch):
    """
    A value of a library that isn't imported is an error that says what to import.
    """
    row = next(row for row in ROWS if row.name == "Document")
    payload = Codec().encode(row.value)
    monkeypatch.delitem(importlib.sys.modules, "langchain_core.documents.base")

    with pytest.raises(UnknownTypeError, match=r"base:Document") as unknown:
        Codec().decode(payload)
    assert unknown.value.do == "import langchain_core.documents.base first"
