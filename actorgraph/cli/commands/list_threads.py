"""`actorgraph threads`: the threads of a database, newest first."""

from typing import Annotated, Any, NamedTuple

import typer

from actorgraph.cli.command_group import LOOK, AsJson, Database, GraphName, group
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.printed import ThreadLine, ThreadList

STATUSES = ("idle", "busy", "interrupted", "error")


@group.command("threads", rich_help_panel=LOOK)
def threads(
    *,
    db: Database = None,
    graph: GraphName = None,
    status: Annotated[
        str | None, typer.Option(help="Only these: idle, busy, interrupted or error.")
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

    Example: actorgraph threads --db runs.db --status interrupted
    """
    import anyio

    from actorgraph.cli.drawn import draw_threads
    from actorgraph.cli.json_arguments import object_of
    from actorgraph.cli.output import show

    if status is not None and status not in STATUSES:
        raise UsageError(f"unknown --status {status!r}", do=f"use one of {', '.join(STATUSES)}")
    wanted = object_of(metadata, "--metadata")
    asked = _Search(db, graph, prefix, status, wanted, limit)
    found = anyio.run(_search, asked)
    show(found, draw_threads, as_json=as_json)


class _Search(NamedTuple):
    """The arguments of a search."""

    db: str | None
    graph: str | None
    prefix: str
    status: str | None
    metadata: dict[str, Any]
    limit: int


async def _search(asked: _Search) -> ThreadList:
    from actorgraph.cli.places import open_reader
    from actorgraph.cli.thread_reader import AT_ONCE
    from actorgraph.web.requests.json_equality import contains

    async with open_reader(asked.db, asked.graph) as reader:
        ids = await reader.newest_first(asked.prefix)
        rows: list[ThreadLine] = []
        for at in range(0, len(ids), AT_ONCE):
            some = ids[at : at + AT_ONCE]
            runs = await reader.open_runs(some)
            for one in some:
                line = await reader.line(one, runs.get(one))
                if asked.status in (None, line.status) and contains(line.metadata, asked.metadata):
                    rows.append(line)
                if len(rows) > asked.limit:
                    return ThreadList(tuple(rows[: asked.limit]), more=True)
        return ThreadList(tuple(rows))
