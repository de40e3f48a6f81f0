"""`actorgraph tail`: follow a thread that another process runs, by reading its database."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actorgraph.cli.command_group import LOOK, AsJson, Database, GraphName, ThreadId, group
from actorgraph.cli.printed import CheckpointLine, TailLine

if TYPE_CHECKING:
    from actorgraph.cli.thread_reader import ThreadReader
    from actorgraph.types import StateSnapshot

PAGE = 100
"""Checkpoints that are read at once."""


@group.command("tail", rich_help_panel=LOOK)
def tail(
    thread: ThreadId,
    *,
    last: Annotated[
        int, typer.Option("-n", "--last", min=0, help="Checkpoints to show first.")
    ] = 5,
    forever: Annotated[
        bool, typer.Option("-f", "--forever", help="Go on when the thread ends, asks or fails.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", min=0.05, help="Seconds between two looks.")
    ] = 0.5,
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """Follow a thread while another process runs it: its steps, and the events of its run.

    It ends when the thread ends, asks a question or fails. With --json each line is an object.

    Example: actorgraph tail t1 --db runs.db
    """
    from functools import partial

    import anyio

    shown = partial(_tail, db, graph, thread)
    anyio.run(partial(shown, last=last, forever=forever, interval=interval, as_json=as_json))


async def _tail(
    db: str | None,
    graph: str | None,
    thread: str,
    *,
    last: int,
    forever: bool,
    interval: float,
    as_json: bool,
) -> None:
    from contextlib import aclosing

    from actorgraph.cli.drawn import time_of_day
    from actorgraph.cli.output import console, print_json_line
    from actorgraph.cli.places import open_reader
    from actorgraph.cli.visible_text import visible

    out = console()
    async with open_reader(db, graph) as reader:
        lines = _follow(reader, thread, last=last, forever=forever, interval=interval)
        async with aclosing(lines):
            async for line in lines:
                if as_json:
                    print_json_line(line)
                else:
                    out.print(f"{time_of_day(line.at)}  {visible(line.text)}", soft_wrap=True)
                    out.file.flush()


async def _follow(
    reader: "ThreadReader", thread: str, *, last: int, forever: bool, interval: float
) -> AsyncGenerator[TailLine]:
    import anyio

    from actorgraph.cli.thread_reader import checkpoint_line, has_thread

    await reader.must_find(thread)
    seen, ended = "", ""
    events = _Events(reader, thread)
    while True:
        # Runs first: one that ends meanwhile is noticed at the next look, with all of its steps.
        run = (await reader.open_runs([thread])).get(thread)
        busy = has_thread(run)
        for line in await events.read(run if busy else None):
            yield line
        steps = await _newer(reader, thread, seen, last)
        for step in reversed(steps):
            line = checkpoint_line(step)
            if line.checkpoint_id != seen:
                yield TailLine(line.created_at, "checkpoint", _text_of(line), line)
                seen = line.checkpoint_id
        ending = "" if busy or not steps else _ending_of(steps[0])
        if ending and ending != ended:
            yield TailLine("", "end", ending)
        ended = ending
        if ending and not forever:
            return
        await anyio.sleep(interval)


async def _newer(
    reader: "ThreadReader", thread: str, seen: str, last: int
) -> "list[StateSnapshot]":
    """Read the checkpoints from the newest to the one that was seen last."""
    if not seen:
        return (await reader.steps(thread, max(last, 1)))[: max(last, 1)]
    from actorgraph.studio.steps import checkpoint_of

    limit = PAGE
    while True:
        steps = await reader.steps(thread, limit)
        ids = [checkpoint_of(step) for step in steps]
        if seen in ids:
            return steps[: ids.index(seen) + 1]
        if len(steps) < limit:  # the seen one was removed meanwhile
            return steps[:1]
        limit *= 4


def _text_of(line: CheckpointLine) -> str:
    then = ", ".join(line.next) or "the end"
    return f"step {line.step}, {line.source}: then {then}"


def _ending_of(head: "StateSnapshot") -> str:
    from actorgraph.cli.drawn import compact
    from actorgraph.cli.thread_reader import questions_of

    failed = [task for task in head.tasks if task.error is not None]
    if failed:
        return f"{failed[0].name} failed: {failed[0].error}"
    asked = questions_of(head)
    if asked:
        return f"{asked[0].node} asks: {compact(asked[0].value)}"
    return "" if head.next else "the end"


class _Events:
    """The stored events of a thread's newest run, as far as they were read."""

    def __init__(self, reader: "ThreadReader", thread: str) -> None:
        self._reader, self._thread = reader, thread
        self._run: bytes | None = None
        self._offset = 0

    async def read(self, row: Any) -> list[TailLine]:
        """Read the events since the last call.

        Args:
            row: the open run; None: read the rest of the one before.
        """
        from datetime import UTC, datetime

        from actorgraph.cli.drawn import compact
        from actorgraph.internals import read_page
        from actorgraph.web.http.jsonable import to_plain

        if row is not None and row.run != self._run:
            self._run, self._offset = row.run, 0
        if self._run is None:
            return []
        reader = self._reader
        codec = reader.saver.codec if reader.graph is None else reader.graph.codec
        lines: list[TailLine] = []
        while page := await read_page(reader.host, codec, self._run, self._thread, self._offset):
            for event in page:
                at = datetime.fromtimestamp(event.created / 1e6, UTC).isoformat()
                data = to_plain(event.data)
                text = f"{event.kind}: {compact(data, 500)}"
                lines.append(TailLine(at, "event", text, event=event.kind, data=data))
            self._offset = page[-1].offset
        return lines
