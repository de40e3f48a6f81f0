"""Events made of a run's chunks, without a server."""

import pytest

from actorgraph.messages import AIMessage, AIMessageChunk
from actorgraph.web.http.event_translator import MESSAGES_MAX, EventTranslator, graph_modes
from actorgraph.web.http.problems import Unprocessable


def names(wire: EventTranslator, *chunks: tuple[tuple[str, ...], str, object]) -> list[str]:
    return [name for chunk in chunks for name, _ in wire.events(*chunk)]


class TestModes:
    def test_each_client_mode_needs_one_of_the_graphs(self):
        """
        Both kinds of messages need the graph's messages, once.
        """
        assert graph_modes(["values", "messages", "messages-tuple"]) == ["values", "messages"]

    def test_a_mode_that_is_not_served_is_refused(self):
        """
        The refusal names the mode and those that there are.
        """
        with pytest.raises(
            Unprocessable, match=r"stream_mode must be one of values.* got 'lifecycle'"
        ):
            graph_modes(["lifecycle"])


class TestChunks:
    def test_only_the_requested_modes_are_sent(self):
        """
        A reader of updates gets no values.
        """
        wire = EventTranslator(["updates"], subgraphs=False)

        assert names(wire, ((), "values", {}), ((), "updates", {"a": {}})) == ["updates"]

    def test_graphs_inside_are_named(self):
        """
        Chunks of graphs inside have their place in the event's name, and are sent on request.
        """
        inner = (("a:1", "b:2"), "updates", {})

        assert names(EventTranslator(["updates"], subgraphs=True), inner) == ["updates|a:1|b:2"]
        assert names(EventTranslator(["updates"], subgraphs=False), inner) == []

    def test_the_runs_status_is_always_sent(self):
        """
        Beginning, end, error, gap and drain reach every reader.
        """
        wire = EventTranslator(["updates"], subgraphs=False)
        happened = ["metadata", "gap", "drain", "error", "end"]

        assert names(wire, *(((), kind, {}) for kind in happened)) == happened

    def test_a_gap_is_followed_by_the_state_in_all_modes(self):
        """
        The state behind a gap is sent to a reader of updates too; no other state is.
        """
        wire = EventTranslator(["updates"], subgraphs=True)
        state, below = ((), "values", {}), (("a:1",), "values", {})

        assert names(wire, ((), "gap", {}), below, state, state) == ["gap", "values"]


class TestMessages:
    def test_few_messages_are_remembered(self):
        """
        A reader's memory is bounded: a message that comes after many others is sent anew.
        """
        wire = EventTranslator(["messages"], subgraphs=False)
        for number in range(MESSAGES_MAX + 1):
            names(wire, ((), "messages", (AIMessageChunk("a", id=str(number)), {})))
        again = [((), "messages", (AIMessageChunk("b", id=one), {})) for one in ("0", "1000")]

        assert names(wire, *again) == ["messages/metadata", "messages/partial"] * 2

    def test_pieces_are_sent_as_the_message_so_far(self):
        """
        A message's metadata is sent once, then the message as far as it has come.
        """
        wire = EventTranslator(["messages"], subgraphs=False)
        pieces = [AIMessageChunk("Hel", id="1"), AIMessageChunk("lo", id="1")]
        told = [e for piece in pieces for e in wire.events((), "messages", (piece, {"n": 1}))]

        assert [name for name, _ in told] == [
            "messages/metadata", "messages/partial", "messages/partial",
        ]  # fmt: skip
        assert told[0][1] == {"1": {"metadata": {"n": 1}}}
        assert [data[0]["content"] for name, data in told[1:]] == ["Hel", "Hello"]

    def test_a_whole_message_is_complete(self):
        """
        A message that comes in one piece is sent as complete.
        """
        wire = EventTranslator(["messages"], subgraphs=False)
        told = list(wire.events((), "messages", (AIMessage("Hi", id="1"), {})))

        assert told[-1][0] == "messages/complete"
        assert told[-1][1][0]["type"] == "ai"

    def test_tuples_are_pieces_with_their_metadata(self):
        """
        `messages-tuple` sends each piece alone, with its metadata.
        """
        wire = EventTranslator(["messages-tuple"], subgraphs=False)
        ((name, data),) = wire.events((), "messages", (AIMessageChunk("a", id="1"), {"n": 1}))

        assert (name, data[0]["content"], data[1]) == ("messages", "a", {"n": 1})
