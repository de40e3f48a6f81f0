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
from actorgraph.messages.add_messages import assign_message_ids, merged
from tests.support.graphs import at, history, in_a_row

FAMILIES = [ours, lc]
OPENAI = "langchain-openai"


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


def in_one_piece(old: list[Any], update: list[Any], merge: Any) -> list[Any]:
    return merge(old, update)


def one_by_one(old: list[Any], update: list[Any], merge: Any) -> list[Any]:
    for message in update:
        old = merge(old, [message])
    return old


def outcome(way: Any, update: list[Any], merge: Any) -> Any:
    """Return the messages that a way of merging gives, or the text of its error."""
    old = [lc.HumanMessage("old", id="a"), lc.AIMessage("b", id="b")]
    try:
        return [(m.id, m.content, m.type) for m in way(old, update, merge)]
    except InvalidUpdateError as error:
        return str(error)


def deltas(old: list[Any], update: list[Any]) -> list[Any]:
    return ours.messages_delta_reducer(old, [update])


REDUCERS = {
    "add": add_messages,
    "delta": deltas,
    "answering": add_messages(open_calls="answer"),
    "format": add_messages(format=OPENAI),
}
CHANGES = st.one_of(
    st.builds(lambda i, text: lc.HumanMessage(text, id=i), IDS, st.sampled_from("xyz")),
    st.builds(lambda i: lc.AIMessage([{"type": "text", "text": "t"}], id=i), IDS),
    st.builds(lambda i: lc.RemoveMessage(id=i), IDS),
    st.just(lc.RemoveMessage(id=REMOVE_ALL_MESSAGES)),
)


@pytest.mark.parametrize("merge", REDUCERS.values(), ids=REDUCERS)
@given(update=st.lists(CHANGES, max_size=8))
def test_one_update_is_its_messages_one_by_one(merge, update):
    """
    An update gives what its messages give one after another, for each reducer; but a message
    may be removed twice, or before all are removed, in one update.
    """
    whole, parts = (outcome(way, update, merge) for way in (in_one_piece, one_by_one))

    assert whole == parts or isinstance(parts, str)


@pytest.mark.parametrize("kind", FAMILIES, ids=["ours", "langchain"])
class TestMerge:
    @pytest.mark.parametrize("reducer", [add_messages, deltas], ids=["add", "delta"])
    def test_messages_behind_the_removal_of_all_are_merged(self, kind, reducer):
        """
        Behind REMOVE_ALL_MESSAGES an id replaces, a RemoveMessage removes, and no id is twice.
        """
        clear = RemoveMessage(REMOVE_ALL_MESSAGES)
        draft, final = kind.AIMessage("draft", id="2"), kind.AIMessage("final", id="2")
        typo = [kind.HumanMessage("typo", id="3"), kind.RemoveMessage(id="3")]

        found = reducer([kind.HumanMessage("old", id="2")], [clear, draft, final, *typo])

        assert texts(found) == [("ai", "final")]

    def test_an_unknown_id_behind_the_removal_of_all(self, kind):
        """
        A RemoveMessage of a message that was removed with all others is an error.
        """
        update = [RemoveMessage(REMOVE_ALL_MESSAGES), kind.RemoveMessage(id="1")]

        with pytest.raises(InvalidUpdateError, match="doesn't exist"):
            add_messages([kind.HumanMessage("old", id="1")], update)

    @pytest.mark.parametrize("reducer", [add_messages, deltas], ids=["add", "delta"])
    def test_a_message_that_comes_back_is_the_last(self, kind, reducer):
        """
        An id that an update removes and writes again goes to the end; a list that has an id twice
        loses both.
        """
        old = [kind.HumanMessage(text, id=i) for text, i in ("a1", "b2", "c1")]
        update = [kind.RemoveMessage(id="1"), kind.HumanMessage("d", id="1")]

        assert [m.content for m in reducer(old, update)] == ["b", "d"]

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

    @pytest.mark.parametrize("kind", FAMILIES, ids=["ours", "langchain"])
    def test_a_format_changes_contents_only(self, kind):
        """
        The id of a message and what its provider has put beside its content outlive a format, so
        that a second turn replaces and removes by id.
        """
        block = [{"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}}]
        more = {"additional_kwargs": {"k": 1}, "response_metadata": {"r": 2}, "name": "ada"}
        usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
        old = [
            kind.HumanMessage(block, id="1", **more),
            kind.AIMessage("said", id="2", usage_metadata=usage, **more),
            kind.ToolMessage(block, id="3", tool_call_id="c", status="error", artifact=7, **more),
        ]
        merge = add_messages(format=OPENAI)

        first = merge([], old)
        again = merge(first, [*first, kind.RemoveMessage(id="2")])

        assert [m.content for m in first] == ["see", "said", "see"]
        assert [type(m) for m in first] == [type(m) for m in old]
        for before, after in zip(old, first, strict=True):
            assert {**vars(before), "content": ""} == {**vars(after), "content": ""}
        assert again == [first[0], first[2]]
        assert old[0].content == block

    @pytest.mark.parametrize("kind", FAMILIES, ids=["ours", "langchain"])
    def test_a_message_that_becomes_several(self, kind):
        """
        Calls and results of tools in contents become calls and messages; their ids are the same
        at every merge, so that a second turn doubles nothing.
        """
        call = {"type": "tool_use", "name": "f", "input": {"x": 1}, "id": "c"}
        results = [
            {"type": "tool_result", "tool_use_id": "c", "content": "good"},
            {"type": "tool_result", "tool_use_id": "d", "content": "bad", "is_error": True},
        ]
        update = [kind.AIMessage([call], id="1"), kind.HumanMessage(results, id="2")]
        merge = add_messages(format=OPENAI)

        found = merge(merge([], update), update)

        assert texts(found) == [("ai", ""), ("tool", "good"), ("tool", "bad")]
        assert [c["args"] for c in found[0].tool_calls] == [{"x": 1}]
        assert [m.status for m in found[1:]] == ["success", "error"]
        assert [m.id for m in found[:2]] == ["1", "2"]
        assert len({m.id for m in found}) == 3

    def test_another_format(self):
        """
        An unknown format is refused, also for an empty conversation.
        """
        with pytest.raises(InvalidUpdateError, match="Unknown format 'openai'"):
            add_messages([], [], format="openai")

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
        made = [
            assign_message_ids([ours.AIMessage("a"), {"role": "user", "content": "b"}], "t")
            for _ in "12"
        ]
        other = assign_message_ids([ours.AIMessage("a")], "u")

        assert made[0][0].id == made[1][0].id != other[0].id
        assert made[0][1] == made[1][1]
        assert assign_message_ids(ours.AIMessage("a", id="mine"), "t").id == "mine"

    def test_other_writes_pass(self):
        """
        An Overwrite, or what the reducer will refuse, is left as it is.
        """
        for write in (Overwrite([]), 7, None, {"__overwrite__": []}):
            assert assign_message_ids(write, "t") is write


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
