"""`actorgraph threads`: the threads of a database, newest first."""

from typing import Annotated, Any, NamedTuple

import typer

from actorgraph.cli.command_group import LOOK, AsJson, Database, GraphName, group
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.printed import ThreadLine, ThreadList

STATUSES = ("idle", "busy", "interrupted", "error")
"""LangGraph's words, beside those of `values/thread_phase`."""


@group.command("threads", rich_help_panel=LOOK)
def threads(
    *,
    db: Database = None,
    graph: GraphName = None,
    status: Annotated[
        str | None,
        typer.Option(help='Only these: waiting, "cut off", parked, unfinished, failed ...'),
    ] = None,
    waits: Annotated[
        bool, typer.Option("--waits", help="Only those that ask or sleep, and for how long.")
    ] = False,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only threads unchanged for 30m, 12h ...")
    ] = None,
    prefix: Annotated[str, typer.Option(help="Only threads whose id begins with this.")] = "",
    metadata: Annotated[
        str | None,
        typer.Option(metavar="JSON", help='Only threads whose metadata has this: {"user": "ada"}.'),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most threads.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the threads of a database, newest first.

    Statuses: waiting (for a person), sleeping (until its time), cut off
    (its process died), parked, unfinished, failed, running, ended; idle,
    busy, interrupted, error.
    --waits says what questions do by themselves: "answers itself in 2 h".

    Example: actorgraph threads --db runs.db --status waiting --older-than 1h
    """
    import anyio

    from actorgraph.cli.drawn import draw_threads, draw_waiting
    from actorgraph.cli.json_arguments import object_of
    from actorgraph.cli.output import show

    wanted, least = object_of(metadata, "--metadata"), _age(older_than)
    asked = _Search(db, graph, prefix, _status(status), wanted, limit, least, waits)
    found = anyio.run(_search, asked)
    show(found, draw_waiting if waits else draw_threads, as_json=as_json)


def _status(given: str | None) -> str | None:
    """Return the status or the phase that a person names.

    Raises:
        UsageError: it is none of them.
    """
    from actorgraph.internals import PHASES, phase_named

    if given is None or given in STATUSES:
        return given
    found = phase_named(given)
    if found is None:
        names = ", ".join([*PHASES, *STATUSES])
        raise UsageError(f"unknown --status {given!r}", do=f"use one of {names}")
    return found


def _age(text: str | None) -> float:
    from actorgraph.cli.retention_plan import seconds_of

    return 0.0 if text is None else seconds_of(text)


class _Search(NamedTuple):
    """The arguments of a search."""

    db: str | None
    graph: str | None
    prefix: str
    status: str | None
    metadata: dict[str, Any]
    limit: int
    age_s: float
    waits: bool


async def _search(asked: _Search) -> ThreadList:
    from actorgraph.cli.places import open_reader
    from actorgraph.cli.thread_reader import AT_ONCE
    from actorgraph.web.http.json_equality import contains

    async with open_reader(asked.db, asked.graph) as reader:
        ids = await reader.newest_first(asked.prefix)
        rows: list[ThreadLine] = []
        for at in range(0, len(ids), AT_ONCE):
            some = ids[at : at + AT_ONCE]
            runs = await reader.runs_of(some)
            for one in some:
                line = await reader.line(one, runs.get(one, ()))
                if _fits(line, asked) and contains(line.metadata, asked.metadata):
                    rows.append(line)
                if len(rows) > asked.limit:
                    return ThreadList(tuple(rows[: asked.limit]), more=True)
        return ThreadList(tuple(rows))


def _fits(line: ThreadLine, asked: _Search) -> bool:
    return (
        asked.status in (None, line.status, line.phase)
        and (not asked.waits or line.phase in ("waiting", "sleeping"))
        and (line.age_s or 0.0) >= asked.age_s
    )
