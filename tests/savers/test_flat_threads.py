"""The cost of a thread's state and turn: the same, however long the thread has become.

Counted in steps of SQLite's virtual machine and, where savers keep threads in Python, in bytecode
instructions. `test_history_cost` counts pages of a history.
"""

from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, START, InMemorySaver, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.channels import DeltaChannel
from tests.support.graphs import at
from tests.support.instruction_counts import instructions

SHORT, LONG = 60, 960
FLAT_MAX = 1.3
"""How many times the steps of the short thread a thread of sixteen times the length may take."""
EACH = 10
"""A count for each so many steps of SQLite's."""


def joined(old: list[str], writes: list[list[str]]) -> list[str]:
    return [*old, *(text for write in writes for text in write)][-10:]


class State(TypedDict, total=False):
    count: int
    text: str
    recent: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=10)]


def step(state: Any) -> State:
    return {"count": state["count"] + 1, "text": "x" * 50, "recent": ["y"]}


def looping(saver: Any, steps: int) -> Any:
    """A graph whose node runs so many times, and once in a thread that has run longer."""
    builder = StateGraph(State).add_node("step", step).add_edge(START, "step")
    builder.add_conditional_edges("step", lambda s: "step" if s.get("count", 0) < steps else END)
    return builder.compile(checkpointer=saver)


async def long_thread(saver: Any, steps: int) -> Any:
    """Make a thread of so many checkpoints; return its graph."""
    graph = looping(saver, steps)
    config: Any = {**at(), "recursion_limit": steps + 5}
    await graph.ainvoke({"count": 0, "text": "", "recent": []}, config, durability="async")
    return graph


class Counting(SqliteSaver):
    """A saver that counts the steps of its connections."""

    counted = 0

    async def count_steps(self) -> None:
        """From now on."""

        def more() -> None:
            self.counted += 1

        connections: Any = (self._reader, self._writer)
        for driver in connections:
            await driver.run(lambda connection: connection.set_progress_handler(more, EACH))

    def taken(self) -> int:
        """Return the count since the last call."""
        counted, self.counted = self.counted, 0
        return counted


async def test_a_file_is_read_and_written_in_as_many_steps(tmp_path: Path) -> None:
    """
    SQLite takes as many steps for the state, an update, a turn, and an older checkpoint of a
    thread sixteen times as long.
    """
    costs: list[list[int]] = []
    for steps in (SHORT, LONG):
        async with Counting(tmp_path / f"{steps}.db", synchronous="OFF") as saver:
            graph = await long_thread(saver, steps)
            older = (await graph.aget_state(at())).parent_config
            await saver.count_steps()
            cost: list[int] = []
            for ask in (
                lambda g=graph: g.aget_state(at()),
                lambda g=graph, config=older: g.aget_state(config),
                lambda g=graph: g.aupdate_state(at(), {"count": 10_000}),
                lambda g=graph: g.ainvoke({"recent": ["z"]}, at()),
            ):
                saver.taken()
                await ask()
                cost.append(saver.taken())
            costs.append(cost)

    assert all(costs[0])
    assert [b < FLAT_MAX * a for a, b in zip(*costs, strict=True)] == [True] * 4, costs


@pytest.mark.parametrize("kind", [InMemorySaver, JsonlSaver])
def test_a_state_in_python_is_read_with_as_much_work(kind: Any, tmp_path: Path) -> None:
    """
    The state of a thread sixteen times as long takes as many instructions.
    """
    costs: list[int] = []
    for steps in (SHORT, LONG):
        place = () if kind is InMemorySaver else (tmp_path / f"{steps}",)
        with kind(*place) as saver:
            graph = looping(saver, steps)
            config: Any = {**at(), "recursion_limit": steps + 5}
            graph.invoke({"count": 0, "text": "", "recent": []}, config, durability="async")
            graph.get_state(at())
            costs.append(instructions(lambda graph=graph: graph.get_state(at())))

    assert costs[1] < FLAT_MAX * costs[0]
