"""A graph with a subgraph in a subgraph, under old and new names of their nodes."""

from collections.abc import Sequence
from typing import Any

from actorgraph import interrupt
from actorgraph.types import Migration
from tests.support.graphs import in_a_row
from tests.support.subgraphs import Log


class Turns(Log):
    """The state of the innermost subgraph: its turns are its own."""

    turns: int


OLD = ("team", "agent")
NEW = ("crew", "helper")
Moves = tuple[Sequence[Migration], Sequence[Migration]]
ONCE: Moves = [Migration(nodes={"team": "crew"})], [Migration(nodes={"agent": "helper"})]
TWICE: Moves = (
    [Migration(nodes={"team": "group"}), Migration(nodes={"group": "crew"})],
    [Migration(nodes={"agent": "aide"}), Migration(nodes={"aide": "helper"})],
)
MOVES: dict[str, Moves] = {"once": ONCE, "twice": TWICE}
KEPT = {"per thread": (True, True), "of a task": (None, True), "above a task": (True, None)}


def program(
    saver: Any,
    names: tuple[str, str],
    moves: Moves = ([], []),
    kept: tuple[Any, Any] = (True, True),
) -> Any:
    """A graph with a subgraph in a subgraph; the innermost counts its turns, and asks in each."""

    def count(state: Turns) -> dict[str, Any]:
        return {"turns": state.get("turns", 0) + 1}

    def ask(state: Turns) -> dict[str, Any]:
        return {"log": [f"{interrupt('?')}{state['turns']}"]}

    inner = in_a_row({"count": count, "ask": ask}, schema=Turns, checkpointer=kept[1])
    middle = in_a_row(
        {names[1]: inner}, schema=Log, checkpointer=kept[0], migrations=list(moves[1])
    )
    return in_a_row({names[0]: middle}, schema=Log, checkpointer=saver, migrations=list(moves[0]))
