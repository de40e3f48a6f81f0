"""Tool calls without an answer: what the reducer and `answer_open_calls` make of them."""

from typing import Any

import langchain_core.messages as lc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph import add_messages
from actorgraph import messages as ours
from actorgraph.errors import InvalidUpdateError
from actorgraph.messages import answer_open_calls

FAMILIES = pytest.mark.parametrize("kind", [ours, lc], ids=["ours", "langchain"])
merge = add_messages(open_calls="answer")


def calling(kind: Any, *ids: str, id: str = "m") -> Any:
    """A model's message with a tool call for each id."""
    return kind.AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": i} for i in ids], id=id)


def answer(kind: Any, call: str, content: str = "ok") -> Any:
    """The answer of a tool."""
    return kind.ToolMessage(content, tool_call_id=call, id=f"answer {call} {content}")


def shown(messages: list[Any]) -> list[Any]:
    """A conversation in short: calls, answers and texts."""
    return [
        (m.tool_call_id, m.content)
        if m.type == "tool"
        else [c["id"] for c in m.tool_calls]
        if m.type == "ai"
        else m.content
        for m in messages
    ]


def invalid(messages: list[Any], *, ends: bool = True) -> list[str]:
    """The tool calls that don't have exactly one answer, right behind their message.

    Args:
        ends: whether calls at the end of the conversation need one, too.
    """
    found: list[str] = []
    for place, message in enumerate(messages):
        calls = [c["id"] for c in getattr(message, "tool_calls", None) or ()]
        behind: list[str] = []
        for other in messages[place + 1 :]:
            if other.type != "tool":
                break
            behind.append(other.tool_call_id)
        if not ends and place + 1 + len(behind) == len(messages):
            continue
        found += [call for call in calls if behind.count(call) != 1]
    return found


@FAMILIES
class TestReducer:
    def test_a_message_behind_an_open_call_gives_it_up(self, kind):
        """
        The call gets the answer "cancelled" with the status "error", between its message and the
        new one.
        """
        found = merge([calling(kind, "1", "2"), answer(kind, "1")], kind.HumanMessage("hi"))

        assert shown(found) == [["1", "2"], ("1", "ok"), ("2", "cancelled"), "hi"]
        assert (found[2].status, found[2].name) == ("error", "t")
        assert isinstance(found[2], kind.ToolMessage)

    def test_calls_at_the_end_stay_open(self, kind):
        """
        As long as only answers follow, the tools may still run.
        """
        found = merge(merge([], calling(kind, "1", "2")), answer(kind, "2"))

        assert shown(found) == [["1", "2"], ("2", "ok")]

    def test_a_late_answer_replaces_the_added_one(self, kind):
        """
        A tool that did end after all has its answer behind its call, and it is the only one.
        """
        given_up = merge([calling(kind, "1")], kind.HumanMessage("hi"))

        found = merge(given_up, answer(kind, "1"))

        assert shown(found) == [["1"], ("1", "ok"), "hi"]

    def test_ids_of_calls_may_come_again(self, kind):
        """
        An answer belongs to the newest call with its id, as some providers repeat them.
        """
        old = [calling(kind, "1"), answer(kind, "1", "first"), calling(kind, "1", id="n")]

        found = merge(old, kind.HumanMessage("hi"))

        assert shown(found) == [["1"], ("1", "first"), ["1"], ("1", "cancelled"), "hi"]

    def test_two_given_up_calls_with_one_id_have_two_answers(self, kind):
        """
        The stand-ins of different messages have ids of their own, so neither replaces the other.
        """
        found = merge([calling(kind, "1")], [kind.HumanMessage("a"), calling(kind, "1", id="n")])
        found = merge(found, kind.HumanMessage("b"))

        assert shown(found) == [["1"], ("1", "cancelled"), "a", ["1"], ("1", "cancelled"), "b"]
        assert len({message.id for message in found}) == len(found)

    def test_the_same_merge_gives_the_same_messages(self, kind):
        """
        A superstep that is folded again, after a crash, makes the stand-in with the same id.
        """
        made = [merge([calling(kind, "1")], kind.HumanMessage("hi", id="h")) for _ in range(2)]

        assert made[0] == made[1]

    def test_a_removed_answer_is_missed(self, kind):
        """
        An answer that is removed leaves its call open, which is then answered.
        """
        old = [calling(kind, "1"), answer(kind, "1"), kind.HumanMessage("hi", id="h")]

        found = merge(old, kind.RemoveMessage(id=old[1].id))

        assert shown(found) == [["1"], ("1", "cancelled"), "hi"]

    def test_an_added_answer_goes_with_its_call(self, kind):
        """
        With the message that made the call the answer goes that was made for it, and no tool's.
        """
        old = merge([calling(kind, "1", "2"), answer(kind, "1")], kind.HumanMessage("hi"))

        found = merge(old, kind.RemoveMessage(id="m"))

        assert shown(found) == [("1", "ok"), "hi"]

    def test_without_the_option_calls_stay_open(self, kind):
        """
        The plain reducer adds nothing.
        """
        found = add_messages([calling(kind, "1")], kind.HumanMessage("hi"))

        assert shown(found) == [["1"], "hi"]


class TestOption:
    def test_it_is_one_reducer(self):
        """
        Two schemas with the same options have the same rule for the key.
        """
        assert add_messages(open_calls="answer") is add_messages(open_calls="answer")

    def test_another_word_is_refused(self):
        """
        An unknown option is an error when the schema is declared.
        """
        with pytest.raises(InvalidUpdateError, match="Unknown open_calls 'drop'"):
            add_messages(open_calls="drop")  # type: ignore[call-overload]

    def test_both_lists_may_be_given(self):
        """
        The option works in a direct call, too.
        """
        found = add_messages([calling(ours, "1")], "hi", open_calls="answer")

        assert shown(found) == [["1"], ("1", "cancelled"), "hi"]


class TestFunction:
    @FAMILIES
    def test_calls_at_the_end_are_answered_too(self, kind):
        """
        Before a model is called every call needs its answer.
        """
        found = answer_open_calls(["hi", calling(kind, "1", "2"), answer(kind, "2")])

        assert shown(found)[1:] == [["1", "2"], ("2", "ok"), ("1", "cancelled")]

    def test_a_conversation_without_open_calls_stays_as_it_is(self):
        """
        Answers keep their order, an answer without a call its place.
        """
        given_ = [answer(ours, "0"), calling(ours, "1", "2"), answer(ours, "2"), answer(ours, "1")]

        assert answer_open_calls(given_) == given_

    def test_answers_elsewhere_are_moved_and_the_newest_counts(self):
        """
        Each call has one answer, right behind it.
        """
        given_ = [calling(ours, "1"), ours.HumanMessage("hi"), answer(ours, "1", "old")]

        found = answer_open_calls([*given_, answer(ours, "1", "new")])

        assert shown(found) == [["1"], ("1", "new"), "hi"]

    def test_the_content_may_be_chosen(self):
        """
        The text of the stand-ins is the program's, if it gives one; the list given is not changed.
        """
        given_ = [calling(ours, "1")]

        assert shown(answer_open_calls(given_, content="stopped")) == [["1"], ("1", "stopped")]
        assert len(given_) == 1

    def test_a_call_without_an_id_can_have_no_answer(self):
        """
        No message can name it, so none is made.
        """
        asked = ours.AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": None}])

        assert answer_open_calls([asked]) == [asked]


STEPS = st.lists(
    st.one_of(
        st.just("human"),
        st.lists(st.sampled_from("123"), max_size=3, unique=True),
        st.sampled_from(["a1", "a2", "a3"]),
    ),
    max_size=12,
)


@given(STEPS, st.lists(st.integers(1, 4), max_size=12))
def test_no_conversation_is_ever_invalid(steps, sizes):
    """
    In any order and in any pieces, each call has one answer behind it, but for those at the end;
    and the function gives those theirs.
    """
    made: list[Any] = []
    for number, step in enumerate(steps):
        if step == "human":
            made.append(ours.HumanMessage("hi", id=str(number)))
        elif isinstance(step, list):
            made.append(calling(ours, *step, id=str(number)))
        else:
            made.append(ours.ToolMessage("ok", tool_call_id=step[1], id=str(number)))
    state: list[Any] = []
    rest = made
    for size in [*sizes, len(made)]:
        state, rest = merge(state, rest[:size]), rest[size:]
        assert invalid(state, ends=False) == []

    assert invalid(answer_open_calls(state)) == []
    assert answer_open_calls(answer_open_calls(state)) == answer_open_calls(state)
    assert [m for m in state if m.type != "tool"] == [m for m in made if m.type != "tool"]
