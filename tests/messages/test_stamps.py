"""Ids of messages that are written without one, in the channels of packages' own reducers."""

from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import StateGraph
from actorgraph.channels import DeltaChannel
from actorgraph.messages import AIMessage
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
