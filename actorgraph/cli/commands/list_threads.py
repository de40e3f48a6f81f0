"""`actorgraph threads`: the threads of a database, newest first."""

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from actorgraph.cli.command_group import LOOK, AsJson, Database, GraphName, group
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.printed import ThreadLine, ThreadList

if TYPE_CHECKING:
    from rich.console import Console

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

    from actorgraph.cli.output import show
    from actorgraph.cli.places import database_named

    if status is not None and status not in STATUSES:
        raise UsageError(f"unknown --status {status!r}", do=f"use one of {', '.join(STATUSES)}")
    asked = _Search(database_named(db), graph, prefix, status, _metadata(metadata), limit)
    found = anyio.run(_search, asked)
    show(found, draw, as_json=as_json)


def _metadata(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"--metadata {text!r} is not a JSON object", do='write {"user": "ada"}')
    return found


class _Search(NamedTuple):
    """The arguments of a search."""

    db: str
    graph: str | None
    prefix: str
    status: str | None
    metadata: dict[str, Any]
    limit: int


async def _search(asked: _Search) -> ThreadList:
    from actorgraph.cli.places import load_graph, open_saver
    from actorgraph.cli.thread_reader import AT_ONCE, ThreadReader
    from actorgraph.web.requests.json_equality import contains

    graph = load_graph(asked.graph) if asked.graph else None
    async with open_saver(asked.db) as saver:
        reader = ThreadReader(saver, graph)
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


def draw(out: "Console", found: ThreadList) -> None:
    """Draw the list as a table."""
    from rich.table import Table

    table = Table("thread", "status", "step", "updated", "next", box=None, pad_edge=False)
    for row in found.threads:
        table.add_row(
            row.thread_id, row.status, str(row.step), row.updated_at[:19], ", ".join(row.next)
        )
    out.print(table if found.threads else "no threads")
    if found.more:
        out.print("There are more: raise --limit.")
