"""`actorgraph export` and `import`: threads as JSON lines come back equal in every saver."""

import operator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import msgspec
import pytest

from actorgraph import END, START, Command, InMemorySaver, StateGraph, interrupt
from actorgraph.cli.command_line import main
from actorgraph.cli.exit_codes import CommandError
from actorgraph.cli.thread_lines import decoded, lines_of, parsed, store
from actorgraph.codec import Codec
from tests.support.graphs import at


@dataclass
class Price:
    """A type of the program's own."""

    cents: int


class Cart(TypedDict, total=False):
    """A state with values that JSON lacks."""

    count: int
    log: Annotated[list, operator.add]
    price: Price


async def add(state):
    return {"count": state.get("count", 0) + 1, "log": [(1, b"x")], "price": Price(3)}


async def ask(state):
    return {"log": [interrupt("how many?")]}


def cart(saver=None):
    builder = StateGraph(Cart)
    builder.add_node("add", add)
    builder.add_node("ask", ask)
    builder.add_edge(START, "add")
    builder.add_edge("add", "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


CODEC = Codec([Price], form="json")


async def exported(saver):
    return [msgspec.json.encode(line) async for line in lines_of(saver, "t", CODEC)]


class TestRoundTrips:
    @pytest.mark.every_saver
    async def test_a_thread_comes_back_equal(self, saver):
        """
        Checkpoints, parents, metadata, values and pending writes survive any saver, both ways.
        """
        async with InMemorySaver() as origin:
            await cart(origin).ainvoke({"count": 0}, at("t"))
            await cart(origin).ainvoke({"count": 48}, at("t"))
            before = await exported(origin)
        for text in before:
            await store(saver, decoded(msgspec.json.decode(text, type=_line_type()), CODEC))

        assert await exported(saver) == before
        assert len(before) == 6

    async def test_an_imported_thread_goes_on(self, saver):
        """
        A question that was pending when the thread was exported can be answered afterwards.
        """
        async with InMemorySaver() as origin:
            await cart(origin).ainvoke({"count": 0}, at("t"))
            for text in await exported(origin):
                await store(saver, decoded(msgspec.json.decode(text, type=_line_type()), CODEC))

        result = await cart(saver).ainvoke(Command(resume=7), at("t"))

        assert result == {"count": 1, "log": [(1, b"x"), 7], "price": Price(3)}


def _line_type():
    from actorgraph.cli.thread_lines import ExportedCheckpoint

    return ExportedCheckpoint


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "cause"),
        [
            ('{"actorgraph_threads": 99}', "the file has format 99"),
            ('{"actorgraph_threads": 1}\n{"thread_id": 3}', "line 2 is not of"),
            ("hello", "line 1 is not of"),
        ],
    )
    def test_a_damaged_or_newer_file_is_refused(self, text, cause):
        """
        The error names the line or the format.
        """
        with pytest.raises(CommandError, match=cause):
            list(parsed(text.splitlines()))

    def test_a_thread_that_has_gone_on_is_refused(self, tmp_path, capsys):
        """
        Import stores nothing in a thread with checkpoints that the file doesn't have.
        """
        from tests.cli.runs import run_thread

        first, second, file = (str(tmp_path / name) for name in ("a.db", "b.db", "t.jsonl"))
        run_thread(first, "t")
        run_thread(second, "t")

        assert main(["export", first, "-o", file]) == 0
        assert main(["import", file, second]) == 1
        assert "thread 't' has checkpoints that the file doesn't have" in capsys.readouterr().err

    def test_the_target_may_exist_already_with_the_same_thread(self, tmp_path, capsys):
        """
        Importing twice stores everything once; an existing file is never overwritten.
        """
        from tests.cli.runs import run_thread

        first, second, file = (str(tmp_path / name) for name in ("a.db", "b.db", "t.jsonl"))
        run_thread(first, "t")
        main(["export", first, "--thread", "t", "-o", file])

        assert [main(["import", file, second]) for _ in range(2)] == [0, 0]
        assert main(["export", first, "-o", file]) == 2
        assert main(["export", first, "--thread", "x"]) == 2
        lines = capsys.readouterr()
        assert lines.out.count("1 threads, 3 checkpoints") == 3
        assert "exists already" in lines.err
        assert "the database has no thread 'x'" in lines.err
