"""Checkpoints keep the values that they were stored with, whatever is converted after them."""

from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, StateGraph
from actorgraph.types import Migration
from tests.support.graphs import at


class State(TypedDict, total=False):
    doc: Any
    log: Annotated[list[str], add]


def graph(saver: Any, *migrations: Migration) -> Any:
    """Two nodes that leave `doc` as it is."""
    builder = StateGraph(State).add_node("a", lambda _: {"log": ["a"]})
    builder.add_node("b", lambda _: {"log": ["b"]}).add_edge(START, "a").add_edge("a", "b")
    return builder.compile(saver, migrations=migrations)


def marked(doc: Any) -> Any:
    """Count the conversions of a value."""
    return {**doc, "conversions": doc.get("conversions", 0) + 1}


LARGE = {"text": "x" * 5000}
VALUES: dict[str, Any] = {
    "small": {"n": 1},
    "large": LARGE,
    "large parts": {f"part {n}": dict(LARGE) for n in range(3)},
}


async def shown(program: Any, configs: list[Any]) -> list[Any]:
    """The conversions that `doc` has had, in each of the checkpoints."""
    values = [(await program.aget_state(config)).values for config in configs]
    return [found["doc"].get("conversions", 0) for found in values if "doc" in found]


async def history(program: Any) -> list[Any]:
    """The configs of all checkpoints, newest first."""
    return [snapshot.config async for snapshot in program.aget_state_history(at())]


@pytest.mark.parametrize("doc", VALUES.values(), ids=VALUES)
class TestOldCheckpoints:
    async def test_later_runs_leave_their_values_alone(self, saver, doc):
        """
        Runs, edits, forks and replays of each checkpoint convert its values once, and leave it as
        it was for the version of the program before.
        """
        old = graph(saver)
        await old.ainvoke({"doc": doc}, at())
        configs = await history(old)
        new = graph(saver, Migration(name="m", values={"doc": marked}))

        for config in configs:
            for _ in range(2):
                replayed = await new.ainvoke(None, config)
                assert replayed["doc"]["conversions"] == 1
            await new.ainvoke({"log": ["more"]}, at())
            await new.aupdate_state(config, {"log": ["edit"]})

        assert set(await shown(new, await history(new))) == {1}
        assert set(await shown(old, configs)) == {0}
