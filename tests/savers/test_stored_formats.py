"""Threads that were stored with records of formats 5 and 6, as files of `JsonlSaver`.

Each waits at its question. `tests/savers/formats` has them as they were written; never write them
anew: they show that what is stored today is read by every later version.
"""

import operator
import shutil
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, Command, JsonlSaver, StateGraph, interrupt
from actorgraph.codec.records import decode_record
from actorgraph.types import Migration
from actorgraph.values.commits import ListCheckpoints
from tests.support.graphs import at

FORMATS = Path(__file__).parent / "formats"
TENS = Migration(name="tens", values={"n": lambda n: n * 10})
TWICE = Migration(name="twice", values={"n": lambda n: n * 2})
TEXT = "x" * 5000
"""Long enough for a row that several values share: that is what format 5 is for."""


class Stored(TypedDict, total=False):
    text: str
    same: str
    n: int
    log: Annotated[list[str], operator.add]


def graph(saver: Any, *migrations: Migration) -> Any:
    """The graph that stored them; that of format 6 had the migration TENS."""
    builder = StateGraph(Stored)
    builder.add_node("a", lambda state: {"same": state["text"], "log": ["a"]})
    builder.add_node("ask", lambda _: {"log": [str(interrupt("ok?"))]})
    builder.add_edge(START, "a").add_edge("a", "ask")
    return builder.compile(saver, name="stored", migrations=migrations)


@pytest.fixture
def folder(tmp_path):
    """Opens the thread of a format in a folder of its own."""

    def opened(version: int) -> JsonlSaver:
        shutil.copy(FORMATS / f"v{version}.jsonl", tmp_path / "t.jsonl")
        return JsonlSaver(tmp_path)

    return opened


@pytest.mark.parametrize("version", [5, 6])
async def test_the_examples_have_their_formats(version, folder):
    """
    The newest record of each example is of the format that it is an example of.
    """
    async with folder(version) as saver:
        (found,) = await saver.query([ListCheckpoints("t", limit=1)])

    record = decode_record(found[0].row.record)
    assert (record.v, bool(record.shared), bool(record.converted)) == (version, True, version == 6)


@pytest.mark.parametrize(
    ("version", "migrations", "n"),
    [
        (5, (), 7),
        (5, (TENS,), 70),
        (6, (TENS,), 7),
        (6, (TENS, TWICE), 14),
        (6, (), 7),
    ],
)
async def test_a_stored_thread_goes_on(version, migrations, n, folder):
    """
    Its values are whole, and converted by no function that they have had.
    """
    wanted = {"text": TEXT, "same": TEXT, "n": n, "log": ["a", "yes"]}
    async with folder(version) as saver:
        now = graph(saver, *migrations)
        assert [one.value for one in (await now.aget_state(at())).interrupts] == ["ok?"]
        assert await now.ainvoke(Command(resume="yes"), at()) == wanted
        assert (await now.aget_state(at())).values == wanted
