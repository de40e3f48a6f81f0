"""add_messages: merging by id, removing, forms, ids; with our messages and with LangChain's."""

from typing import Annotated, Any, TypedDict

import anyio
import langchain_core.messages as lc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph import (
    END,
    REMOVE_ALL_MESSAGES,
    START,
    MessagesState,
    Overwrite,
    RemoveMessage,
    StateGraph,
    add_messages,
    push_message,
)
from actorgraph import messages as ours
from actorgraph.codec import Codec
from actorgraph.errors import InvalidUpdateError, OutsideRunError
from actorgraph.messages.add_messages import merged, stamp
from tests.support.graphs import at, history, in_a_row

FAMILIES = [ours, lc]


def texts(messages: list[Any]) -> list[tuple[str, str]]:
    return [(m.type, m.content) for m in messages]


IDS = st.sampled_from("abcdef")
LISTS = st.lists(st.builds(lambda i: ours.HumanMessage("x", id=i), IDS), max_size=6)


@given(LISTS, LISTS)
def test_appending_is_merging(old, new):
    """
    A list of new messages, which is appended without merging, is what merging makes of it: also
    where ids repeat in either list.
    """
    assert [*map(id, add_messages(old, new))] == [*map(id, merged(old, new))]


@pytest.mark.parametrize("kind", FAMILIES, ids=["ours", "langchain"])
class TestMerge:
    @pytest.mark.langgraph("F-B18")
    def test_a_known_id_replaces_in_place(self, kind):
        """
        A message with a known id takes the old one's place; others go to the end.
        """
        old = [kind.HumanMessage("a", id="1"), kind.AIMessage("b", id="2")]

        found = add_messages(old, [kind.HumanMessage("A", id="1"), kind.AIMessage("c", id="3")])

        assert texts(found) == [("human", "A"), ("ai", "b"), ("ai", "c")]

    @pytest.mark.langgraph("F-B18")
    def test_an_id_that_the_list_has_twice(self, kind):
        """
        A list that was given an id twice keeps both; a new message takes the last one's place.
        """
        old = [kind.HumanMessage(text, id="1") for text in "ab"]

        found = add_messages(old, [kind.HumanMessage("c", id="1"), kind.AIMessage("d", id="2")])

        assert texts(found) == [("human", "a"), ("human", "c"), ("ai", "d")]

    @pytest.mark.langgraph("F-B18")
    def test_a_message_without_an_id_gets_one(self, kind):
        """
        Every message in the result has an id.
        """
        found = add_messages([kind.HumanMessage("a")], kind.AIMessage("b"))

        assert len({m.id for m in found} - {None}) == 2

    @pytest.mark.langgraph("F-B18")
    def test_removing(self, kind):
        """
        A RemoveMessage takes one out, in the same step too; an unknown id is an error; all before
        REMOVE_ALL_MESSAGES go.
        """
        old = [kind.HumanMessage("a", id="1"), kind.AIMessage("b", id="2")]

        assert texts(add_messages(old, kind.RemoveMessage(id="1"))) == [("ai", "b")]
        everything = [kind.AIMessage("x", id="8"), RemoveMessage(REMOVE_ALL_MESSAGES)]
        after = [*everything, kind.AIMessage("y", id="9")]
        assert texts(add_messages(old, after)) == [("ai", "y")]
        with pytest.raises(InvalidUpdateError, match="doesn't exist"):
            add_messages(old, [kind.RemoveMessage(id="7")])

    @pytest.mark.langgraph("F-B18")
    def test_plain_forms_join_the_conversation(self, kind):
        """
        Strings, pairs and dicts become messages of the family that is there.
        """
        forms = ["hi", ("ai", "hello"), {"role": "user", "content": "bye"}]

        found = add_messages([kind.SystemMessage("be kind", id="0")], forms)

        assert texts(found)[1:] == [("human", "hi"), ("ai", "hello"), ("human", "bye")]
        assert {type(m).__module__.split(".")[0] for m in found} == {kind.__name__.split(".")[0]}

    @pytest.mark.langgraph("F-B18")
    def test_a_chunk_becomes_a_message(self, kind):
        """
        A piece that is written to the state counts as a whole message.
        """
        joined = kind.AIMessageChunk("a", id="1") + kind.AIMessageChunk("b", id="1")

        (found,) = add_messages([], [joined])

        assert type(found) is kind.AIMessage
        assert (found.content, found.id) == ("ab", "1")

    def test_messages_come_back_from_storage_as_they_were(self, kind):
        """
        Messages need no place on the codec's list, and come back equal.
        """
        calls = [{"name": "f", "args": {"x": 1}, "id": "c", "type": "tool_call"}]
        sent = [
            kind.AIMessage("a", id="1", tool_calls=calls),
            kind.ToolMessage("r", id="2", tool_call_id="c"),
            kind.RemoveMessage(id="3"),
        ]

        assert Codec().decode(Codec().encode(sent, "x")) == sent


class TestForms:
    @pytest.mark.langgraph("F-B18")
    def test_one_argument_is_not_enough(self):
        """
        Two lists or none: none gives a reducer with a format.
        """
        assert callable(add_messages(format="langchain-openai"))
        with pytest.raises(InvalidUpdateError, match="Must specify non-null"):
            add_messages([ours.HumanMessage("a")], None)

    @pytest.mark.langgraph("F-B18")
    def test_the_format_of_openai(self):
        """
        format="langchain-openai" gives contents the shape of OpenAI's blocks.
        """
        image = {"type": "base64", "media_type": "image/png", "data": "aGk="}
        block = {"type": "image", "source": image}
        given = lc.HumanMessage([{"type": "text", "text": "see"}, block], id="1")

        (found,) = add_messages([], [given], format="langchain-openai")

        assert [part["type"] for part in found.content] == ["text", "image_url"]

    @pytest.mark.parametrize("bad", [7, ("nobody", "x"), {"role": "nobody", "content": "x"}])
    def test_another_object_than_a_message_is_refused(self, bad):
        """
        Anything else is refused, and the error says which forms there are.
        """
        with pytest.raises(InvalidUpdateError):
            add_messages([ours.HumanMessage("a", id="1")], [bad])


class TestStamp:
    @pytest.mark.langgraph("L95")
    def test_the_same_place_gives_the_same_id(self):
        """
        A message's id follows from where it was written, so every fold of a stored write finds
        the same one; what has an id keeps it.
        """
        made = [stamp([ours.AIMessage("a"), {"role": "user", "content": "b"}], "t") for _ in "12"]
        other = stamp([ours.AIMessage("a")], "u")

        assert made[0][0].id == made[1][0].id != other[0].id
        assert made[0][1] == made[1][1]
        assert stamp(ours.AIMessage("a", id="mine"), "t").id == "mine"

    def test_other_writes_pass(self):
        """
        An Overwrite, or what the reducer will refuse, is left as it is.
        """
        for write in (Overwrite([]), 7, None, {"__overwrite__": []}):
            assert stamp(write, "t") is write


class TestState:
    @pytest.mark.langgraph("L95")
    async def test_ids_are_stored_with_the_write(self, saver):
        """
        The state while a sibling still fails, the one after it, and the history have one id.
        """
        fails = [True]

        async def says(state: MessagesState) -> dict[str, Any]:
            return {"messages": [ours.AIMessage("hello")]}

        async def breaks(state: MessagesState) -> None:
            await anyio.wait_all_tasks_blocked()
            if fails:
                raise OSError(fails.pop())

        builder = StateGraph(MessagesState).add_node("says", says).add_node("breaks", breaks)
        builder.add_edge(START, "says").add_edge(START, "breaks").add_edge("says", END)
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(OSError, match="True"):
            await graph.ainvoke({"messages": "hi"}, at())

        ids = [[m.id for m in (await graph.aget_state(at())).values["messages"]] for _ in "12"]
        result = await graph.ainvoke(None, at())

        assert ids[0] == ids[1] == [m.id for m in result["messages"]]
        newest = (await history(graph, at()))[0]
        assert [m.id for m in newest.values["messages"]] == ids[0]

    @pytest.mark.langgraph("F-B20")
    async def test_push_message(self):
        """
        A pushed message is streamed at once and in the state after the node.
        """

        async def node(state: MessagesState) -> dict[str, Any]:
            push_message(ours.AIMessage("pushed", id="p"))
            push_message(ours.AIMessage("only streamed", id="q"), state_key=None)
            return {"messages": [ours.AIMessage("returned", id="r")]}

        graph = in_a_row({"node": node}, schema=MessagesState)
        stream = graph.astream({"messages": []}, stream_mode=["messages", "values"])
        chunks = [chunk async for chunk in stream]

        assert [c[0].id for m, c in chunks if m == "messages"] == ["p", "q", "r"]
        assert sorted(m.id for m in chunks[-1][1]["messages"]) == ["p", "r"]

    @pytest.mark.langgraph("F-B20")
    async def test_push_message_needs_an_id_and_a_node(self):
        """
        Without an id, or outside of a node, it is refused.
        """

        async def node(state: MessagesState) -> None:
            push_message({"role": "ai", "content": "x"})

        with pytest.raises(InvalidUpdateError, match="Message ID is required"):
            await in_a_row({"node": node}, schema=MessagesState).ainvoke({"messages": []})
        with pytest.raises(OutsideRunError):
            push_message(ours.AIMessage("x", id="1"))

    async def test_a_reducer_with_a_format(self):
        """
        A partial of add_messages is a reducer like any other.
        """

        class State(TypedDict):
            messages: Annotated[list[Any], add_messages(format="langchain-openai")]

        async def node(state: State) -> dict[str, Any]:
            return {"messages": [lc.AIMessage("b")]}

        result = await in_a_row({"node": node}, schema=State).ainvoke({"messages": ["a"]})

        assert texts(result["messages"]) == [("human", "a"), ("ai", "b")]
