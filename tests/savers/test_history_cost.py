"""The cost of reading a history: each checkpoint the same, however long its thread has become.

Counted in bytecode instructions of the reading and the decoding, without actors between them.
"""

import operator
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, START, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.codec import Codec
from actorgraph.codec.restore import restore
from actorgraph.savers.sqlite.reading import run_queries
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, Loaded
from tests.savers.jsonl_folders import Direct
from tests.support.instruction_counts import instructions

CODEC = {JsonlSaver: Codec(form="json"), SqliteSaver: Codec()}
SHORT, LONG = 60, 480
READ = 20
FLAT_MAX = 1.5
"""How many times the instructions a checkpoint may take in a thread of eight times the length."""


class State(TypedDict, total=False):
    count: int
    log: Annotated[list[Any], operator.add]


async def step(state: State) -> State:
    return {"count": state["count"] + 1, "log": [{"text": "x" * 50}]}


def graph(steps: int, **options: Any) -> Any:
    builder = StateGraph(State).add_node("step", step).add_edge(START, "step")
    builder.add_conditional_edges("step", lambda s: "step" if s["count"] < steps else END)
    return builder.compile(**options)


@contextmanager
def jsonl(folder: Path) -> Iterator[Callable[[Any], Any]]:
    """Queries of a folder of JSON lines."""
    with Direct(folder) as opened:
        yield opened.ask


@contextmanager
def sqlite(path: Path) -> Iterator[Callable[[Any], Any]]:
    """Queries of a SQLite file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield lambda query: run_queries(connection, [query])[0]


@pytest.mark.one_loop
@pytest.mark.parametrize(("saver", "reader"), [(JsonlSaver, jsonl), (SqliteSaver, sqlite)])
async def test_a_checkpoint_of_a_long_history_costs_what_one_of_a_short_one_does(
    saver, reader, tmp_path, anyio_backend
):
    """
    A page of the newest checkpoints of a thread eight times as long takes as much work.
    """

    def page_of(ask: Callable[[Any], Any], made: Any) -> int:
        for stored in ask(ListCheckpoints("t", "", limit=READ, ancestors=True)):
            assert restore(CODEC[saver], made.plan, Loaded(checkpoint=stored, head=stored.row.id))
        return READ

    costs: list[int] = []
    for steps in (SHORT, LONG):
        path = tmp_path / f"{steps}"
        async with saver(path) as opened:
            made = graph(steps, checkpointer=opened)
            config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": steps + 5}
            await made.ainvoke({"count": 0, "log": []}, config, durability="async")
        with reader(path) as ask:
            ask(LoadCheckpoint("t"))
            page_of(ask, made)
            costs.append(instructions(lambda ask=ask, made=made: page_of(ask, made)))

    assert costs[1] < FLAT_MAX * costs[0]
