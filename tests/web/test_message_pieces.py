"""Pieces of messages: their JSON, and the compact form of their events."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessageChunk as LangChainChunk
from pydantic import BaseModel, computed_field

from actorgraph.messages import AIMessage, AIMessageChunk
from actorgraph.web.http.event_translator import EventTranslator
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.message_attempts import OPEN_MAX
from actorgraph.web.http.message_pieces import PlainPieces

TASK = {"langgraph_node": "agent", "langgraph_checkpoint_ns": "agent:1"}

texts = st.text(max_size=5) | st.sampled_from(["tok ", "", "\ud800", "naïve"])
ids = st.sampled_from(["a", "b", None])
own = st.builds(
    AIMessageChunk,
    texts | st.just([{"type": "text", "text": "x"}]),
    id=ids,
    name=st.sampled_from([None, "n"]),
    response_metadata=st.sampled_from([{}, {"model_provider": "p"}, {"finish_reason": "stop"}]),
    additional_kwargs=st.sampled_from([{}, {"k": [1]}]),
)
langchain = st.builds(
    LangChainChunk,
    content=texts.filter(lambda text: text != "\ud800"),
    id=ids,
    response_metadata=st.sampled_from([{}, {"model_provider": "p"}]),
    usage_metadata=st.sampled_from(
        [None, {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}]
    ),
    tool_call_chunks=st.sampled_from(
        [[], [{"name": None, "args": '"', "id": None, "index": 0, "type": "tool_call_chunk"}]]
    ),
)
metadata = st.sampled_from([TASK, {**TASK, "n": 1}, {**TASK, "n": True}, {}])


@given(st.lists(st.tuples(own | langchain, metadata), max_size=12))
def test_a_piece_has_the_json_that_it_has_alone(pieces):
    """What is remembered of the pieces before changes nothing of what a client gets."""
    converter = PlainPieces()
    for message, about in pieces:
        piece = converter.convert(message, dict(about))
        assert repr([piece.message, piece.metadata]) == repr(to_plain([message, about]))


@dataclass
class Noted(AIMessageChunk):
    """A piece with a field that no other piece has."""

    notes: list[str] = field(default_factory=list[str])


class Counted(BaseModel):
    """A piece whose JSON has its text in two places."""

    content: str
    id: str = "a"

    @computed_field
    @property
    def length(self) -> int:
        return len(self.content)


class CountedChunk(Counted):
    """One that is a piece by its name."""


@pytest.mark.parametrize("kind", [Noted, CountedChunk])
def test_classes_of_a_program_s_own_are_converted_as_ever(kind):
    """Fields that the library doesn't know, and computed ones, are in each piece's JSON."""
    converter = PlainPieces()
    pieces = [kind(content=text, id="a") for text in ("one", "four", "")]
    if kind is Noted:
        pieces[1].notes.append("seen")
    shown = [converter.convert(piece, TASK).message for piece in pieces]

    assert shown == [to_plain(piece) for piece in pieces]


def test_a_list_that_grows_is_sent_as_it_is():
    """A value that a program changes after it was sent isn't taken for the old one."""
    converter, shared = PlainPieces(), {"steps": [1]}
    first = AIMessageChunk("a", id="1", response_metadata=shared)
    converter.convert(first, TASK)
    shared["steps"].append(2)
    piece = converter.convert(AIMessageChunk("b", id="1", response_metadata=shared), TASK)

    assert piece.message["response_metadata"] == {"steps": [1, 2]}


class Page:
    """A client that follows the documented form."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.current = ""

    def take(self, name: str, data: Any) -> None:
        if name == "messages/dropped":
            for one in data["ids"]:
                del self.texts[one]
        elif name == "messages" and isinstance(data, list):
            self.current = data[0]["id"]
            before = self.texts.get(self.current, "") if "Chunk" in data[0]["type"] else ""
            self.texts[self.current] = before + data[0]["content"]
        elif name == "messages":
            self.current = data.get("id", self.current)
            self.texts[self.current] += data["content"]


def compact() -> EventTranslator:
    return EventTranslator(None, subgraphs=False, compact=True)


def events_of(wire: EventTranslator, *messages: Any, **about: Any) -> list[tuple[str, Any]]:
    chunks = [(message, {**TASK, **about}) for message in messages]
    return [one for chunk in chunks for one in wire.events((), "messages", chunk)]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.text(max_size=3), st.sampled_from("tnd")), max_size=20
    ),
    st.sets(st.integers(0, 19)),
)
def test_a_page_has_each_message_whole(pieces, breaks):
    """However messages interleave, and wherever a page reconnects, it has their texts."""
    wire, page, expected = compact(), Page(), {}
    for number, (name, text, more) in enumerate(pieces):
        if number in breaks:
            wire.reconnect()
        metadata = {"model": more} if more == "d" else {}
        piece = AIMessageChunk(text, id=name, response_metadata=metadata)
        expected[name] = expected.get(name, "") + text
        for event in events_of(wire, piece, **({"n": 1} if more == "n" else {})):
            page.take(*event)

    assert page.texts == expected


class TestCompactForm:
    def test_what_was_said_once_isn_t_said_again(self):
        """The first piece has the message's fields and metadata, later ones their text alone."""
        pieces = [AIMessageChunk(text, id="1") for text in ("Hel", "lo", "!")]
        first, second, third = events_of(compact(), *pieces)

        assert first == ("messages", to_plain([pieces[0], TASK]))
        assert [second, third] == [("messages", {"content": "lo"}), ("messages", {"content": "!"})]

    def test_a_piece_says_its_message_after_another_one(self):
        """Pieces of two models that write at once bear their ids, where the message changes."""
        names = ["1", "2", "1", "1", "2"]
        told = events_of(compact(), *(AIMessageChunk(name, id=name) for name in names))

        assert [data for _, data in told[2:]] == [
            {"content": "1", "id": "1"},
            {"content": "1"},
            {"content": "2", "id": "2"},
        ]

    def test_a_piece_with_more_than_text_is_sent_whole(self):
        """Usage, calls of tools and other fields reach the client."""
        last = AIMessageChunk("", id="1", usage_metadata={"total_tokens": 9})
        told = events_of(compact(), AIMessageChunk("a", id="1"), last)

        assert told[1][1][0]["usage_metadata"] == {"total_tokens": 9}

    def test_a_whole_message_is_sent_whole(self):
        """A message that isn't a piece takes the place of its pieces."""
        told = events_of(compact(), AIMessageChunk("a", id="1"), AIMessage("ab", id="1"))

        assert told[1][1][0] == to_plain(AIMessage("ab", id="1"))

    def test_an_attempt_that_begins_a_task_anew_drops_its_messages(self):
        """What a task wrote before its process died is dropped when it writes again."""
        wire, page = compact(), Page()
        for event in events_of(wire, AIMessageChunk("Half an", id="1")):
            page.take(*event)
        other = {"langgraph_checkpoint_ns": "other:1"}
        for event in events_of(wire, AIMessageChunk("done", id="2"), **other):
            page.take(*event)
        wire.events((), "metadata", {"run_id": "r", "attempt": 2})
        again = events_of(wire, AIMessageChunk("An answer", id="3"))
        for event in again:
            page.take(*event)

        assert again[0] == ("messages/dropped", {"ids": ["1"]})
        assert page.texts == {"2": "done", "3": "An answer"}

    @pytest.mark.parametrize("order", [["1"], ["1", "2"], ["2", "1"]])
    def test_an_attempt_may_write_a_message_with_the_same_id(self, order):
        """Ids of a program's own are the same in each attempt: the text begins anew, once."""
        wire, page = compact(), Page()
        for event in events_of(wire, *(AIMessageChunk("Half", id=name) for name in ["1", "2"])):
            page.take(*event)
        wire.events((), "metadata", {"run_id": "r", "attempt": 2})
        pieces = [AIMessageChunk(text, id=name) for name in order for text in ("Half", " an")]
        for event in events_of(wire, *pieces):
            page.take(*event)

        assert page.texts == dict.fromkeys(order, "Half an")

    def test_messages_of_a_subgraph_interleave_with_its_parent_s(self):
        """A page needs no place for each event's name: a piece says when its message changes."""
        wire, page = EventTranslator(None, subgraphs=True, compact=True), Page()
        below = {"langgraph_checkpoint_ns": "sub:1"}
        for text in ("a", "b", "c"):
            for name, data in [
                *wire.events((), "messages", (AIMessageChunk(text, id="1"), TASK)),
                *wire.events(("sub:1",), "messages", (AIMessageChunk(text, id="2"), below)),
            ]:
                page.take(name.partition("|")[0], data)

        assert page.texts == {"1": "abc", "2": "abc"}

    def test_two_messages_of_one_task_stay(self):
        """A node may call its model twice in one attempt."""
        told = events_of(compact(), AIMessageChunk("a", id="1"), AIMessageChunk("b", id="2"))

        assert [name for name, _ in told] == ["messages", "messages"]

    def test_after_a_gap_a_message_begins_anew(self):
        """A client that has missed events learns again whose text follows."""
        wire = compact()
        events_of(wire, AIMessageChunk("a", id="1"))
        wire.events((), "gap", {"from": 2, "to": 5})
        told = events_of(wire, AIMessageChunk("b", id="1"))

        assert isinstance(told[0][1], list)

    def test_few_messages_are_remembered(self):
        """A reader's memory is bounded: after many others a message is sent whole again."""
        wire = compact()
        for number in range(OPEN_MAX + 1):
            events_of(wire, AIMessageChunk("a", id=str(number)))
        told = events_of(wire, AIMessageChunk("b", id="0"), AIMessageChunk("b", id=str(OPEN_MAX)))

        assert [type(data) for _, data in told] == [list, dict]
