"""Channels of a program's own: rules, and LangGraph's kind, which hold their value."""

from collections.abc import Sequence
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    END,
    START,
    EmptyChannelError,
    InvalidUpdateError,
    NodeBuilder,
    Pregel,
    StateGraph,
)
from actorgraph.channels import MISSING, BaseChannel, Channel, EphemeralValue, LastValue
from actorgraph.errors import GraphBuildError
from tests.support.graphs import at, history


class Votes(BaseChannel[str, str, dict[str, int]]):
    """The leading name. Its counts are changed in place, and stored as they are."""

    def __init__(self, typ: Any = str, key: str = "") -> None:
        super().__init__(typ, key)
        self.counts: dict[str, int] = {}

    def from_checkpoint(self, checkpoint: Any) -> "Votes":
        made = Votes(self.typ, self.key)
        if checkpoint is not MISSING:
            made.counts = checkpoint
        return made

    def checkpoint(self) -> Any:
        return self.counts or MISSING

    def copy(self) -> "Votes":
        return self.from_checkpoint(dict(self.counts) or MISSING)

    def update(self, values: Sequence[str]) -> bool:
        for value in values:
            if not value:
                raise InvalidUpdateError(f"{self.key}: an empty name")
            self.counts[value] = self.counts.get(value, 0) + 1
        return bool(values)

    def get(self) -> str:
        if not self.counts:
            raise EmptyChannelError
        return max(sorted(self.counts), key=self.counts.__getitem__)


class Once(BaseChannel[Any, Any, Any]):
    """Holds a value until a node has run on it, or until the run would end."""

    def __init__(self, typ: Any = Any, key: str = "", late: bool = False) -> None:
        super().__init__(typ, key)
        self.late, self.value, self.open = late, MISSING, not late

    def from_checkpoint(self, checkpoint: Any) -> "Once":
        made = Once(self.typ, self.key, self.late)
        if checkpoint is not MISSING:
            made.value, made.open = checkpoint
        return made

    def checkpoint(self) -> Any:
        return MISSING if self.value is MISSING else (self.value, self.open)

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        self.value, self.open = values[-1], not self.late
        return True

    def get(self) -> Any:
        if self.value is MISSING or not self.open:
            raise EmptyChannelError
        return self.value

    def consume(self) -> bool:
        consumed = self.value is not MISSING and self.open
        if consumed:
            self.value = MISSING
        return consumed

    def finish(self) -> bool:
        finished = self.value is not MISSING and not self.open
        self.open = self.open or finished
        return finished


class Longest(Channel[str]):
    """A rule: the longest write so far."""

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        return max([*([] if value is MISSING else [value]), *writes], key=len)


class Poll(TypedDict, total=False):
    lead: Annotated[str, Votes]
    word: Annotated[str, Longest]
    log: Annotated[list[str], add]


def poll(checkpointer: Any = None, **votes: str) -> Any:
    """Nodes in a row, each of which votes, and notes who leads before its vote."""
    builder = StateGraph(Poll)

    def node(vote: str) -> Any:
        async def call(state: Poll) -> dict[str, Any]:
            return {"lead": vote, "word": vote, "log": [state.get("lead", "nobody")]}

        return call

    for name, vote in votes.items():
        builder.add_node(name, node(vote))
    for start, end in zip([START, *votes], [*votes, END], strict=True):
        builder.add_edge(start, end)
    return builder.compile(checkpointer=checkpointer)


class TestBaseChannel:
    @pytest.mark.promise("S053")
    @pytest.mark.langgraph("F-B1", "L22")
    @pytest.mark.every_saver
    async def test_a_channel_written_for_langgraph(self, saver):
        """
        Each checkpoint has the channel's value of its time, although the channel changes and
        stores one dict in place; a branch goes on from the value of its own past.
        """
        graph = poll(saver, a="x", b="y", c="y")

        result = await graph.ainvoke({"lead": "x"}, at())
        branch = (await history(graph, at()))[1].config
        forked = await graph.ainvoke(None, branch)

        assert result == {"lead": "x", "word": "x", "log": ["x", "x", "x"]}
        assert forked == result
        stored = [p.checkpoint["channel_values"].get("lead") async for p in saver.alist(at())]
        counts = [{"x": 2, "y": 2}, {"x": 2, "y": 1}]
        assert stored == [*counts, *counts, {"x": 2}, {"x": 1}, None]

    @pytest.mark.langgraph("F-B1")
    async def test_a_refused_update_changes_nothing(self, saver):
        """
        An error of the channel's is the run's, and the thread has the value from before.
        """
        graph = poll(saver, a="x", b="")

        with pytest.raises(InvalidUpdateError, match="lead: an empty name"):
            await graph.ainvoke({"lead": "x"}, at())

        assert (await graph.aget_state(at())).values["lead"] == "x"

    @pytest.mark.langgraph("F-B1")
    def test_a_channel_without_a_value_is_not_there(self):
        """
        Readers don't see a channel that raises EmptyChannelError.
        """
        assert poll(a="x").invoke({"log": []})["log"] == ["nobody"]

    @pytest.mark.langgraph("F-B1", "L18")
    async def test_consume_and_finish(self, saver):
        """
        A node runs once for each value; a late value is seen when the run would end, and a run
        that goes on from the store knows.
        """
        log: list[str] = []

        def node(reads: str, writes: str) -> Any:
            def call(value: Any) -> Any:
                log.append(f"{reads} {value}")
                return value

            return NodeBuilder().subscribe_only(reads).do(call).write_to(writes)

        channels = {
            "in": EphemeralValue(int),
            "once": Once(int),
            "last": Once(int, late=True),
            "out": LastValue(int),
        }
        nodes = {"a": node("in", "once"), "b": node("once", "last"), "c": node("last", "out")}
        graph = Pregel(
            nodes=nodes,
            channels=channels,
            input_channels="in",
            output_channels="out",
            checkpointer=saver,
            interrupt_before_nodes=["c"],
        )

        paused = await graph.ainvoke(1, at())
        result = await graph.ainvoke(None, at())

        assert (paused, result) == (None, 1)
        assert log == ["in 1", "once 1", "last 1"]
        assert (await graph.aget_state(at())).next == ()

    def test_an_object_that_is_not_a_channel_is_refused(self):
        """
        A channel of a Pregel that is none is refused with its name.
        """
        with pytest.raises(GraphBuildError, match="channel 'x' must be a channel object, got 7"):
            Pregel(nodes={}, channels={"x": 7}, input_channels="x", output_channels="x")


class TestChannel:
    @pytest.mark.langgraph("F-B9")
    async def test_a_rule_of_ones_own(self, saver):
        """
        A subclass of Channel in an annotation is the key's rule.
        """
        graph = poll(saver, a="aaa", b="bb")

        await graph.ainvoke({"word": "c"}, at())

        assert (await graph.aget_state(at())).values["word"] == "aaa"
