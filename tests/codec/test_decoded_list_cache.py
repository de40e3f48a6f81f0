"""Lists that checkpoints share are decoded once, and no reader sees what another one does."""

from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, PrivateAttr

from actorgraph import START, SqliteSaver, StateGraph, add_messages
from actorgraph.codec import Codec
from actorgraph.codec.copiers import UncopiableError, copy_value, prepare
from actorgraph.codec.list_cache import BYTES_MAX, ListCache
from actorgraph.codec.records import frame
from actorgraph.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from actorgraph.values.commits import StoredRange

KEY = ("thread", "", "items", 1)


class Colour(Enum):
    RED = 1


@dataclass
class Note:
    text: str
    tags: list[str] = field(default_factory=list)


class Model(BaseModel):
    text: str
    parts: dict[str, list[int]] = {}
    _hidden: list[int] = PrivateAttr(default_factory=lambda: [7])


class Open(BaseModel, extra="allow"):
    parts: list[list[int]] = []


class Row(msgspec.Struct):
    text: str


@dataclass(frozen=True)
class Frozen:
    text: str
    tags: list[str] = field(default_factory=list)


@dataclass
class Kept:
    kept: list[str]

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, [*value])


@dataclass(slots=True)
class Slotted:
    x: int


@dataclass
class Mixed(Slotted):
    y: list[int] = field(default_factory=list)


CODEC = Codec([Note, Model, Open, Row, Colour, Frozen, Kept, Slotted, Mixed])
CALL = {"name": "search", "args": {"q": ["x"]}, "id": "c"}
VALUES = [
    *(None, True, 3, 2.5, "text", b"bytes", ("a", ["b"]), Colour.RED),
    *({"role": "user", "content": "hello"}, {"a": {"b": [1, {"c": []}]}}, [[], [1]]),
    *(Note("n", ["x"]), Note("n"), Note(""), Model(text="m", parts={"p": [1]})),
    *(Open(), Open(parts=[[1], []], more={"a": [[2]]})),
    *(HumanMessage("hello", id="1"), HumanMessage([{"type": "text", "text": "hello"}])),
    *(AIMessage("", tool_calls=[CALL]), AIMessage("a", response_metadata={"model": "m"})),
    *(AIMessage("a", additional_kwargs={"a": {"b": []}}, usage_metadata={"tokens": 3}),),
    *(AIMessage("a", usage_metadata={}), AIMessage("a", tool_calls=None)),
    *(SystemMessage("s", name="n"), ToolMessage("t", tool_call_id="c", artifact=[{"a": [1]}])),
    *(ToolMessage("t", artifact=[]), ToolMessage("t", artifact={}, status="error")),
    *(HumanMessage("h", additional_kwargs={"a": [1]}, response_metadata={"b": {}}),),
    *(AIMessage("a", invalid_tool_calls=[CALL]), AIMessage([{"type": "text", "text": "a"}])),
    *(ToolMessage("t", additional_kwargs={"a": [1]}, response_metadata={"b": [{}]}),),
]


def rows(*lists: list[list[Any]]) -> list[StoredRange]:
    """Rows of a list, each made of appends."""
    start, found = 0, []
    for appends in lists:
        count = sum(map(len, appends))
        payload = b"".join(frame(CODEC.encode(items)) for items in appends)
        found.append(StoredRange(start, count, payload))
        start += count
    return found


def read(memory: ListCache, stored: list[StoredRange], count: int, decode: Any) -> Any:
    return memory.read(KEY, stored, count, decode)


class Decoder:
    """Decodes, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, payload: bytes) -> Any:
        self.count += 1
        return CODEC.decode(payload)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_copy_is_what_decoding_again_gives(value):
    """
    Copies are equal, of the same types, and share nothing that can be changed.
    """
    first = CODEC.decode(CODEC.encode(value))
    twin = copy_value(first)

    assert (type(twin), twin, CODEC.encode(twin)) == (type(value), value, CODEC.encode(value))
    assert changeable(first).isdisjoint(changeable(twin))
    copier, prepared = prepare(first)
    assert copier(prepared) == value
    assert changeable(first).isdisjoint(changeable(copier(prepared)))
    one, other = copier(prepared), copier(prepared)
    assert changeable(one).isdisjoint(changeable(other))
    if hasattr(value, "__dict__"):
        assert [*vars(one).items()] == [*vars(first).items()]


@pytest.mark.parametrize("value", [Frozen("f", ["x"]), Kept(["x"]), Mixed(1, [2])], ids=repr)
def test_classes_that_handle_attributes_themselves(value):
    """
    Frozen ones, those with a `__setattr__`, and those with slots are read as they were stored.
    """
    memory, stored = ListCache(), rows([[value]])
    for _ in range(2):
        found = read(memory, stored, 1, CODEC.decode)
        assert found is None or found == [value]
    made = CODEC.decode(CODEC.encode(value))
    try:
        copier, prepared = prepare(made)
    except UncopiableError:
        return
    assert copier(prepared) == value
    assert changeable(made).isdisjoint(changeable(copier(prepared)))


def changeable(value: Any) -> set[int]:
    """The ids of all objects in a value that a program could change."""
    if is_dataclass(value) or isinstance(value, Model):
        private = getattr(value, "__pydantic_private__", None) or {}
        return {id(value)}.union(*map(changeable, [*vars(value).values(), *private.values()]))
    if isinstance(value, dict):
        return {id(value)}.union(*map(changeable, value.values()))
    if isinstance(value, (list, tuple)):
        own = {id(value)} if isinstance(value, list) else set[int]()
        return own.union(*map(changeable, value))
    return set()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


LISTS = st.lists(st.lists(st.lists(PLAIN, max_size=3), min_size=1, max_size=3), max_size=5)


@pytest.mark.parametrize("examples", [30, pytest.param(300, marks=pytest.mark.long)])
def test_items_are_those_of_the_rows_after_any_reads(examples):
    """
    Longer and shorter beginnings in any order, rows that grew, were merged or are others.
    """
    settings(max_examples=examples)(given(LISTS)(read_in_any_order))()


def read_in_any_order(lists):
    memory, every = ListCache(), [item for row in lists for part in row for item in part]
    merged = rows([part for row in lists for part in row]) if lists else []
    for stored in (rows(*lists[:1]), rows(*lists), merged, rows(*lists[:2]), rows(*lists)):
        there = sum(row.count for row in stored)
        for count in (there, there // 2, there):
            assert read(memory, stored, count, CODEC.decode) == every[:count]


def test_an_item_is_decoded_once_while_its_list_grows():
    """
    Each reading of a longer list decodes what was added, also in a row that was there.
    """
    memory, decode = ListCache(), Decoder()
    appends = [[{"n": n}] for n in range(20)]
    for end in range(1, 21):
        stored = rows(appends[: min(end, 8)], *([appends[8:end]] if end > 8 else []))
        for count in (end, end - 1):
            assert read(memory, stored, count, decode) == [{"n": n} for n in range(count)]
    assert decode.count == 20


def test_a_list_whose_later_items_are_of_another_type():
    """
    Each item is copied as its own type needs it, however the list has grown.
    """
    for first, second in [([1], [{"a": 1}]), ([{"a": []}], ["x", "y"]), ([[1]], [Note("n")])]:
        memory = ListCache()
        assert read(memory, rows([first]), 9, CODEC.decode) == first
        assert read(memory, rows([first, second]), 9, CODEC.decode) == [*first, *second]
        stored = rows([first, second], [first])
        found = read(memory, stored, 9, CODEC.decode)
        assert found == [*first, *second, *first]
        again = read(memory, stored, 9, CODEC.decode)
        assert changeable(found).isdisjoint(changeable(again))


def test_readers_do_not_share_items():
    """
    Two readers of one list have items of their own.
    """
    memory, stored = ListCache(), rows([[{"a": []}, Note("n")]])
    first = read(memory, stored, 2, CODEC.decode)
    first[0]["a"].append(1)
    first[1].text = "changed"
    first.clear()

    assert read(memory, stored, 2, CODEC.decode) == [{"a": []}, Note("n")]


def test_other_bytes_are_never_taken_for_known_ones():
    """
    A row with the same place and length but other bytes is decoded.
    """
    memory = ListCache()

    assert read(memory, rows([["abc"]]), 1, CODEC.decode) == ["abc"]
    assert read(memory, rows([["xyz"]]), 1, CODEC.decode) == ["xyz"]


def test_values_that_cannot_be_copied_are_decoded_again():
    """
    Types whose copies are not known to be exact, and lists larger than what is kept.
    """
    memory = ListCache()

    with pytest.raises(UncopiableError):
        prepare(Row("r"))
    with pytest.raises(UncopiableError):
        prepare(Note("n", [Row("r")]))  # pyright: ignore[reportArgumentType]
    assert read(memory, rows([[Row("r")]]), 1, CODEC.decode) is None
    assert read(memory, rows([["x" * (BYTES_MAX + 1)]]), 1, CODEC.decode) is None


def test_the_memory_is_bounded():
    """
    Lists that were not read lately go when the bytes of all are too many.
    """
    memory, decode = ListCache(), Decoder()
    large = rows([["x" * (BYTES_MAX // 3)]])
    for n in range(6):
        memory.read(("thread", "", "items", n), large, 1, decode)
    before = decode.count
    memory.read(("thread", "", "items", 5), large, 1, decode)
    memory.read(("thread", "", "items", 0), large, 1, decode)

    assert (before, decode.count) == (6, 7)


def test_only_plain_codecs_remember():
    """
    Secrets are not kept readable, and an upgrade's results are its own.
    """
    assert Codec().lists is not None
    assert Codec(keys={"k": b"x" * 32}).lists is None
    assert Codec().with_upgrades({"old": Note}).lists is None
    assert Codec().with_types([Note]).lists is not Codec().lists


async def test_a_chat_whose_messages_are_changed_in_place(tmp_path):
    """
    Neither a node nor a reader of a result or a snapshot changes the stored messages.
    """
    seen: list[Any] = []

    def spoil(messages: list[Any]) -> None:
        for message in messages:
            message.content = "spoilt"
            message.additional_kwargs["spoilt"] = True

    async def answer(state: dict[str, Any]) -> dict[str, Any]:
        *before, question = state["messages"]
        seen.append([(m.content, {**m.additional_kwargs}) for m in before])
        spoil(before)
        return {"messages": [AIMessage(f"answer to {question.content}")]}

    builder = StateGraph(TypedDict("Chat", {"messages": Annotated[list, add_messages]}))
    builder.add_node("answer", answer).add_edge(START, "answer")
    config: Any = {"configurable": {"thread_id": "t"}}
    async with SqliteSaver(tmp_path / "chat.db") as saver:
        graph = builder.compile(checkpointer=saver)
        for turn in "abc":
            found = await graph.ainvoke({"messages": [HumanMessage(turn)]}, config)
            spoil(found["messages"])
            found["messages"].clear()
            spoil((await graph.aget_state(config)).values["messages"])
        stored = (await graph.aget_state(config)).values["messages"]

    said = [(text, {}) for turn in "abc" for text in (turn, f"answer to {turn}")]
    assert [(m.content, m.additional_kwargs) for m in stored] == said
    assert seen[2] == said[:4]
