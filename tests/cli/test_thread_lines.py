"""`actorgraph export` and `import`: threads as JSON lines come back equal in every saver."""

import operator
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
import pytest

from actorgraph import END, START, Command, InMemorySaver, StateGraph, interrupt
from actorgraph.cli.command_line import main
from actorgraph.cli.exit_codes import CommandError
from actorgraph.cli.thread_lines import decoded, lines_of, parsed, store
from actorgraph.codec import Codec
from actorgraph.storage.async_files import text_file
from tests.cli.runs import run_thread
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
    async def test_a_damaged_or_newer_file_is_refused(self, text, cause, tmp_path):
        """
        The error names the line or the format.
        """
        (tmp_path / "t.jsonl").write_text(text)

        async with text_file(tmp_path / "t.jsonl", "r") as file:
            with pytest.raises(CommandError, match=cause):
                assert [line async for line in parsed(file)]

    def test_a_thread_that_has_gone_on_is_refused(self, tmp_path, capsys):
        """
        Import stores nothing in a thread with checkpoints that the file doesn't have.
        """
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

    def test_a_cut_file_is_refused(self, tmp_path, capsys):
        """
        Cut at the end of any line, without any of them, or with two files in one, nothing is
        stored; a file of the older format, which counts nothing, is taken.
        """
        first, file = str(tmp_path / "a.db"), tmp_path / "t.jsonl"
        run_thread(first, "t")
        main(["export", first, "-o", str(file)])
        lines = file.read_text().splitlines(keepends=True)
        assert len(lines) == 5
        cuts = [lines[:size] for size in range(len(lines))]
        gaps = [[*lines[:gap], *lines[gap + 1 :]] for gap in range(1, len(lines))]
        for number, found in enumerate([*cuts, *gaps, [*lines, *lines]]):
            file.write_text("".join(found))
            assert main(["import", str(file), str(tmp_path / f"{number}.db")]) == 1
            assert not (tmp_path / f"{number}.db").exists()
        assert "the file was cut: it has 2 checkpoints" in capsys.readouterr().err

        older = [lines[0].replace("2", "1"), *lines[1:-1]]
        file.write_text("".join(older))
        assert main(["import", str(file), str(tmp_path / "older.db")]) == 0

    def test_an_export_is_on_the_disk_before_it_is_said_to_be_made(self, tmp_path, monkeypatch):
        """
        The whole file is synced, then renamed, then the name is synced; what a killed export has
        left beside it is written over.
        """
        first, file = str(tmp_path / "a.db"), tmp_path / "new" / "t.jsonl"
        file.parent.mkdir()
        file.with_name("t.jsonl.part").write_text("left by a process that was killed" * 1000)
        run_thread(first, "t")
        synced: list[tuple[int, bytes]] = []

        def sync(descriptor: int) -> None:
            name = Path(f"/proc/self/fd/{descriptor}").resolve()
            if name.parent == file.parent:
                synced.append((file.exists(), name.read_bytes()))
            elif name == file.parent:
                synced.append((file.exists(), b""))

        monkeypatch.setattr(os, "fsync", sync)
        assert main(["export", first, "-o", str(file)]) == 0
        assert synced == [(False, file.read_bytes()), (True, b"")]
        assert [each.name for each in file.parent.iterdir()] == ["t.jsonl"]
