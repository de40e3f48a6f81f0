"""`actorgraph export` and `actorgraph import`: threads as JSON lines; `actorgraph backup`."""

import os
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TextIO

import typer

from actorgraph.cli.command_group import KEEP, AsJson, Database, GraphName, group
from actorgraph.cli.exit_codes import DONE, FAILED, CommandError, UsageError
from actorgraph.cli.kept_data import BackupResult, TransferResult

if TYPE_CHECKING:
    from actorgraph.errors import ActorGraphError

Place = Annotated[str | None, typer.Argument(help="The database; as --db.")]


@group.command("export", rich_help_panel=KEEP)
def export(
    place: Place = None,
    *,
    db: Database = None,
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be repeated.")
    ] = None,
    out: Annotated[str, typer.Option("--out", "-o", help="A new file; - for stdout.")] = "-",
    graph: GraphName = None,
    as_json: AsJson = False,
) -> int:
    """Write threads as JSON lines, which `actorgraph import` stores in any saver.

    Without --thread those that are damaged are left out and named: exit code 1.
    With --graph values of the program's own types are read, and those that its saver converts or
    encrypts.
    --json prints the counts on stderr if the lines go to stdout.

    Example: actorgraph export runs.db --thread t1 -o t1.jsonl
    """
    import anyio

    from actorgraph.cli.places import database_named

    found = anyio.run(_export, database_named(place or db), thread or [], out, graph)
    _report(found, as_json=as_json, aside=out == "-")
    return FAILED if found.left else DONE


@group.command("import", rich_help_panel=KEEP)
def import_threads(
    file: Annotated[str, typer.Argument(help="A file of `actorgraph export`; - for stdin.")],
    place: Place = None,
    *,
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """Store threads of a file in a database, which is made if it doesn't exist.

    A file that was cut, a thread that has other checkpoints already, or values that can't be read,
    is refused before anything is stored. With --graph they are stored as the saver of the program
    would.

    Example: actorgraph import t1.jsonl --db postgresql://localhost/runs
    """
    import anyio

    from actorgraph.cli.places import database_named

    _report(anyio.run(_import, database_named(place or db), file, graph), as_json=as_json)


@group.command("backup", rich_help_panel=KEEP)
def backup(
    target: Annotated[str, typer.Argument(help="The new file, or folder of JSON lines.")],
    *,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Copy a database to a new SQLite file (JSON lines: a folder) while programs use it.

    Example: actorgraph backup copy.db --db runs.db
    """
    import anyio

    from actorgraph.cli.output import show
    from actorgraph.cli.places import database_named

    anyio.run(_backup, database_named(db), target)
    path = Path(target)
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    result = BackupResult(target, sum(each.stat().st_size for each in files))
    show(
        result,
        lambda out, found: out.print(f"{found.path}: {found.bytes:,} bytes"),
        as_json=as_json,
    )


async def _backup(db: str, target: str) -> None:
    from actorgraph.cli.places import open_saver

    async with open_saver(db) as saver:
        await saver.abackup(target)


async def _export(db: str, threads: list[str], out: str, graph: str | None) -> TransferResult:
    from actorgraph.cli.places import open_program_saver
    from actorgraph.cli.thread_lines import FORMAT, FileEnd, FileHeading, lines_of
    from actorgraph.errors import ActorGraphError
    from actorgraph.internals import is_thread_id

    counts, left = 0, list[str]()
    async with open_program_saver(db, graph) as (saver, codec):
        known = await saver.alist_threads()
        if missing := [each for each in threads if each not in known]:
            raise UsageError(
                f"the database has no thread {missing[0]!r}", do="list them: actorgraph threads"
            )
        async with _writing(out) as write:
            await write([FileHeading(FORMAT)])
            for each in threads or known:
                try:
                    lines = [line async for line in lines_of(saver, each, codec)]
                except ActorGraphError as error:
                    if threads or (is_thread_id(each) and not _is_damaged(error)):
                        raise
                    left.append(str(error))
                    continue
                await write(lines)
                counts += len(lines)
            await write([FileEnd(counts)])
    return TransferResult(out, len(threads or known) - len(left), counts, tuple(left))


def _is_damaged(error: "ActorGraphError") -> bool:
    """Whether no program can read a thread: naming another graph doesn't help."""
    from actorgraph.errors import FormatVersionError, UnknownTypeError
    from actorgraph.internals import DAMAGED

    if isinstance(error, UnknownTypeError):
        return not error.type_name
    return isinstance(error, (FormatVersionError, *DAMAGED))


async def _import(db: str, source: str, graph: str | None) -> TransferResult:
    from actorgraph.cli.places import open_program_saver
    from actorgraph.cli.thread_lines import decoded, parsed, store

    async with _reading(source) as file:
        lines = [line async for line in parsed(file)]
    ids: dict[str, set[str]] = {}
    for line in lines:
        ids.setdefault(line.thread_id, set()).add(line.checkpoint_id)
    async with open_program_saver(db, graph, read_only=False) as (saver, codec):
        for thread, given in ids.items():
            there = {row.checkpoint_id for row in await saver.alist_metadata(thread)}
            if there - given:
                raise CommandError(
                    f"thread {thread!r} has checkpoints that the file doesn't have",
                    do="import into another database, or delete the thread first",
                )
        for found in [decoded(line, codec) for line in lines]:
            await store(saver, found)
    return TransferResult(source, len(ids), len(lines))


def _line(found: Any) -> str:
    import msgspec

    return msgspec.json.encode(found).decode() + "\n"


@asynccontextmanager
async def _writing(out: str) -> AsyncGenerator[Callable[[Iterable[Any]], Awaitable[None]]]:
    """Open a new file, which has its name once it is complete and on the disk."""
    from actorgraph.internals import finish_part as finish
    from actorgraph.internals import in_thread, locked_part, text_file

    if out == "-":
        yield _to_stdout
        sys.stdout.flush()
        with suppress(OSError, ValueError):  # a pipe, or no file at all
            os.fsync(sys.stdout.fileno())
        return
    _check_free(out)
    try:
        with locked_part(out, mode=0o666) as part:
            async with text_file(part, "w") as file:
                yield lambda found: file.write_lines(map(_line, found))
            await in_thread(partial(finish, part, out))
    except OSError as error:
        raise CommandError(
            f"can't write {out!r}: {error.strerror or error}",
            do="look at the path and its folder, free some space, or name another path",
        ) from error


def _check_free(out: str) -> None:
    if os.path.lexists(out):
        raise UsageError(f"{out!r} exists already", do="name a path that doesn't exist")


async def _to_stdout(found: Iterable[Any]) -> None:
    # No worker thread: one that waits for a pipe would keep Ctrl-C from ending the process.
    sys.stdout.writelines(map(_line, found))


@asynccontextmanager
async def _reading(source: str) -> AsyncGenerator[AsyncIterable[str]]:
    from actorgraph.internals import text_file

    try:
        if (opened := _opened_stream(source)) is None:
            async with text_file(source, "r") as file:
                yield file
        else:
            with opened as stream:
                yield _Stream(stream)
    except OSError as error:
        raise UsageError(
            f"can't read {source!r}: {error.strerror}", do="look at the path"
        ) from error


def _opened_stream(source: str) -> AbstractContextManager[TextIO] | None:
    """Open what isn't a regular file."""
    if source == "-":
        return nullcontext(sys.stdin)
    path = Path(source)
    return None if path.is_file() else path.open(encoding="utf-8")


class _Stream:
    """The lines of stdin or a pipe, read in the loop's thread: see `_to_stdout`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        if line := self._stream.readline():
            return line
        raise StopAsyncIteration


def _report(found: TransferResult, *, as_json: bool, aside: bool = False) -> None:
    from actorgraph.cli.output import note, show

    if aside:
        note(_line(found).strip() if as_json else _text(found))
        return
    show(found, lambda out, each: out.print(_text(each)), as_json=as_json)


def _text(found: TransferResult) -> str:
    lines = [f"{found.threads} threads, {found.checkpoints} checkpoints"]
    return "\n".join([*lines, *(f"left out: {text}" for text in found.left)])
