"""`actorgraph retry`: let parked runs be run again."""

from typing import Annotated, Any

import typer

from actorgraph.cli.command_group import CHANGE, AsJson, Database, group
from actorgraph.cli.exit_codes import DONE, FAILED, UsageError


@group.command("retry", rich_help_panel=CHANGE)
def retry(
    *,
    parked: Annotated[
        bool, typer.Option("--parked", help="All runs that were given up; or name some.")
    ] = False,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="Only the parked ones of it.")
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="ID", help="Only this one; repeat it.")
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> int:
    """Let parked runs of an ActorSystem go on where they were.

    They are pending again. An application over the database takes them up at its next `recover()`,
    or by its dispatcher. One whose thread has gone on since is left.

    Example: actorgraph retry --parked --db runs.db
    """
    import anyio

    from actorgraph.cli.output import show

    if not parked and not run:
        raise UsageError(
            "say which runs are retried",
            do="use `--parked` for all that were given up, or `--run ID`",
        )
    found = anyio.run(_retry, db, thread, run)
    show(found, _draw, as_json=as_json)
    return FAILED if found.left else DONE


async def _retry(db: str | None, thread: str | None, runs: list[str] | None) -> Any:
    from actorgraph.cli.places import database_named, open_saver
    from actorgraph.internals import as_text, host_of, parked_rows, retry_rows, rows_of
    from actorgraph.systems import RetriedRuns

    async with open_saver(database_named(db), read_only=False, create=False) as saver:
        if not getattr(saver, "keeps_runs", False):
            return RetriedRuns((), dict.fromkeys(runs or (), "the database keeps no runs"))
        host, unknown = host_of(saver), dict[str, str]()
        if runs:
            rows, unknown = await rows_of(host, runs)
        else:
            rows = await parked_rows(host, thread)
        made, left = await retry_rows(host, rows)
        return RetriedRuns(tuple(as_text(row.run) for row in made), unknown | left)


def _draw(out: Any, found: Any) -> None:
    for run_id in found.retried:
        out.print(f"{run_id} is pending again", soft_wrap=True)
    for run_id, why in found.left.items():
        out.print(f"{run_id} was left: {why}", soft_wrap=True, markup=False)
    if not found.retried and not found.left:
        out.print("no run is parked")
