"""An interrupt is answered once, also by concurrent callers in several processes."""

import sys
from collections import Counter
from functools import partial
from typing import Any

import anyio
import pytest

from actorgraph import AlreadyResumed, Command, SqliteSaver, interrupt
from tests.support.graphs import AB, at, in_a_row

pytestmark = pytest.mark.every_saver

RESUMES = 50


def asking(calls: list[str]):
    async def ask(state: AB) -> dict[str, Any]:
        answer = interrupt("go on?")
        calls.append(answer)
        await anyio.lowlevel.checkpoint()
        return {"bar": [answer]}

    return ask


async def resume_all(graphs: list[Any]) -> Counter[str]:
    """`RESUMES` calls at once, shared out among the graphs; what came of them."""
    came: Counter[str] = Counter()

    async def resume(number: int) -> None:
        try:
            await graphs[number % len(graphs)].ainvoke(Command(resume=str(number)), at())
        except AlreadyResumed:
            came["already"] += 1
        else:
            came["resumed"] += 1

    async with anyio.create_task_group() as group:
        for number in range(RESUMES):
            group.start_soon(resume, number)
    return came


@pytest.mark.promise("R16b", "T14")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_of_many_resumes_one_runs_the_node(saver, durability):
    """
    Of 50 resumes at once one runs the node; the others get AlreadyResumed.
    """
    calls: list[str] = []
    graph = in_a_row({"ask": asking(calls)}, checkpointer=saver)
    await graph.ainvoke({}, at(), durability=durability)

    came = await resume_all([graph.with_durability(durability)])

    assert came == {"resumed": 1, "already": RESUMES - 1}
    assert len(calls) == 1
    assert (await graph.aget_state(at())).values["bar"] == calls


@pytest.mark.promise("R16b", "T14")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_also_over_several_savers_of_one_file(tmp_path, durability):
    """
    Savers that know nothing of each other share a file: still one resume wins.
    """
    calls: list[str] = []
    path = tmp_path / "runs.db"
    make = partial(in_a_row, {"ask": asking(calls)})
    async with SqliteSaver(path) as one, SqliteSaver(path) as two, SqliteSaver(path) as three:
        graphs = [make(checkpointer=s).with_durability(durability) for s in (one, two, three)]
        await graphs[0].ainvoke({}, at())

        came = await resume_all(graphs)

        assert came == {"resumed": 1, "already": RESUMES - 1}
        assert len(calls) == 1


_DIES = """
import anyio, os, sys
from actorgraph import Command, SqliteSaver, interrupt
from tests.support.graphs import at, in_a_row

async def ask(state):
    answer = interrupt("go on?")
    if answer == "die":
        os._exit(9)
    return {"bar": [answer]}

async def main():
    graph = in_a_row({"ask": ask}, checkpointer=SqliteSaver(sys.argv[1]))
    await graph.ainvoke({}, at())
    await graph.ainvoke(Command(resume="die"), at())

anyio.run(main)
"""


@pytest.mark.one_loop
@pytest.mark.promise("R16b", "T14")
async def test_also_after_a_crash(tmp_path):
    """
    An answer that was accepted by a process that died stays the answer: later resumes are refused,
    and going on runs the node with it.
    """
    path = tmp_path / "runs.db"
    done = await anyio.run_process([sys.executable, "-c", _DIES, str(path)], check=False)
    calls: list[str] = []
    async with SqliteSaver(path) as saver:
        graph = in_a_row({"ask": asking(calls)}, checkpointer=saver)

        came = await resume_all([graph])
        result = await graph.ainvoke(None, at())

    assert done.returncode == 9
    assert came == {"already": RESUMES}
    assert result["bar"] == calls == ["die"]
