"""Ids of messages that are written without one, in the channels of packages' own reducers."""

from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, Command, InMemorySaver, StateGraph, add_messages
from actorgraph.channels import DeltaChannel
from actorgraph.messages import AIMessage, HumanMessage, messages_delta_reducer
from actorgraph.values.commands import Overwrite
from tests.support.graphs import at


def joined(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class Conversation(TypedDict):
    log: Annotated[list[Any], DeltaChannel(joined)]


class TestDeltaChannels:
    @pytest.mark.every_saver
    async def test_a_message_has_the_same_id_whenever_it_is_read(self, saver):
        """
        A message written without an id to a DeltaChannel has one, the same in every snapshot.
        """

        async def answer(_: Any) -> Any:
            return {"log": [AIMessage("hi"), "text", ("a", "pair"), {"type": "row", "content": 1}]}

        graph = StateGraph(Conversation).add_node("answer", answer)
        graph = graph.add_edge("__start__", "answer").compile(checkpointer=saver)

        returned = (await graph.ainvoke({"log": []}, at("t")))["log"]
        read = (await graph.aget_state(at("t"))).values["log"]

        assert returned[0].id
        assert read[0].id == returned[0].id
        assert [*map(list, returned[2:3]), returned[1], returned[3]] == [
            ["a", "pair"],
            "text",
            {"type": "row", "content": 1},
        ]

    async def test_messages_of_an_overwrite_have_ids_too(self):
        """
        A message in an Overwrite gets an id before it is stored.
        """

        async def answer(_: Any) -> Any:
            return {"log": Overwrite([AIMessage("hi")])}

        graph = StateGraph(Conversation).add_node("answer", answer)
        graph = graph.add_edge("__start__", "answer").compile()

        returned = (await graph.ainvoke({"log": []}))["log"]

        assert returned[0].id


def flat(state: list[Any], writes: list[Any]) -> list[Any]:
    lists = [list(w) if isinstance(w, (list, tuple)) else [w] for w in writes]
    return [*state, *(item for each in lists for item in each)]


SAYS = {"role": "user", "content": "hi"}
FORMS: dict[str, Any] = {
    "list": lambda: [dict(SAYS)],
    "tuple": lambda: (dict(SAYS), AIMessage("b")),
    "no id": lambda: [{**SAYS, "id": None}],
    "empty id": lambda: [{**SAYS, "id": ""}, HumanMessage("x", id="")],
    "calls only": lambda: [HumanMessage("x"), {"role": "assistant", "tool_calls": []}],
    "objects": lambda: (HumanMessage("x"), AIMessage("y")),
    "overwrite": lambda: Overwrite([dict(SAYS), HumanMessage("x")]),
    "overwrite as a dict": lambda: {"__overwrite__": [dict(SAYS)]},
}
RULES = {
    "add_messages": add_messages,
    "delta": DeltaChannel(messages_delta_reducer),
    "own delta": DeltaChannel(flat),
}


async def read_twice(way: str, rule: Any, make: Any) -> list[list[Any]]:
    """Let messages come into the state by one way; read them twice."""

    class State(TypedDict):
        log: Annotated[list[Any], rule]

    async def node(_: Any) -> Any:
        if way == "input":
            return None
        return Command(update={"log": make()}) if way == "command" else {"log": make()}

    graph: Any = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph = graph.compile(checkpointer=InMemorySaver())
    if way == "update_state":
        await graph.aupdate_state(at("t"), {"log": make()})
    else:
        await graph.ainvoke({"log": make() if way == "input" else []}, at("t"))
    return [(await graph.aget_state(at("t"))).values["log"] for _ in "12"]


class TestEveryWay:
    @pytest.mark.parametrize("way", ["input", "returned", "command", "update_state"])
    @pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
    async def test_each_message_is_an_object_with_a_lasting_id(self, way, rule):
        """
        A message of the state is an object with an id, the same at each reading, in each form and
        by each way it comes in.
        """
        for form, make in FORMS.items():
            one, two = await read_twice(way, rule, make)
            if rule is RULES["own delta"] and "overwrite" in form:  # its dicts may be other data
                one, two = ([m for m in read if m != SAYS] for read in (one, two))

            assert all(m.id for m in one), form
            assert [m.id for m in one] == [m.id for m in two], form

    @pytest.mark.langgraph("F-B10")
    @pytest.mark.parametrize("way", ["input", "returned", "command", "update_state"])
    async def test_an_overwrite_keeps_the_dicts_of_an_own_reducer(self, way):
        """
        Dicts that look like messages stay dicts in an Overwrite of a DeltaChannel whose reducer
        isn't one of messages; its message objects have lasting ids.
        """
        for make in (FORMS["overwrite"], FORMS["overwrite as a dict"]):
            one, two = await read_twice(way, RULES["own delta"], make)

            assert one[0] == two[0] == SAYS
            assert [m.id for m in one[1:]] == [m.id for m in two[1:]]
            assert all(m.id for m in one[1:])

    async def test_the_first_write_of_a_key_without_a_first_value(self):
        """
        A key whose type can't be called merges its first write as any other.
        """

        class State(TypedDict):
            log: Annotated[list[Any] | None, add_messages]

        async def node(_: Any) -> Any:
            return {"log": [AIMessage("draft", id="1"), AIMessage("final", id="1")]}

        graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()

        assert [m.content for m in (await graph.ainvoke({}))["log"]] == ["final"]

    async def test_data_with_the_name_of_a_role_stay(self):
        """
        A dict without a content and without calls stays as it is in an own reducer's channel.
        """

        class State(TypedDict):
            log: Annotated[list[Any], DeltaChannel(flat)]

        async def node(_: Any) -> Any:
            return {"log": [{"role": "user", "name": "ada"}]}

        graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile()

        assert (await graph.ainvoke({"log": []}))["log"] == [{"role": "user", "name": "ada"}]
