"""`actorgraph prune`: remove checkpoints that are old or superseded, after a question."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from actorgraph.cli.command_group import KEEP, AsJson, Database, group
from actorgraph.cli.exit_codes import DONE, FAILED, CommandError, UsageError
from actorgraph.cli.kept_data import PruneResult

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_MAX = 20
"""Threads that the text names."""


class _Asked(NamedTuple):
    """The arguments of a prune."""

    db: str
    threads: list[str]
    age_s: float | None
    keep_last: int | None
    vacuum: bool


@group.command("prune", rich_help_panel=KEEP)
def prune(
    place: Annotated[str | None, typer.Argument(help="The database; as --db.")] = None,
    *,
    db: Database = None,
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be repeated.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Checkpoints older than 30d, 12h ...")
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(min=1, help="Keep this many newest ones of each thread.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without a question.")] = False,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Release the space of removed data afterwards.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Remove old checkpoints of threads; the newest of each thread stays.

    Shows what would go, and asks. Without a terminal nothing is removed unless --yes is given.

    Example: actorgraph prune runs.db --older-than 30d --dry-run
    """
    import anyio

    from actorgraph.cli.output import show

    asked = _asked(place or db, thread or [], older_than, keep_last, vacuum=vacuum)
    plan = anyio.run(_plan, asked)
    if dry_run or not (plan.removed or vacuum):
        show(plan, draw, as_json=as_json)
        return FAILED if plan.left else DONE
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise CommandError(
                f"{plan.removed} checkpoints would be removed, and this is not a terminal",
                do="add --yes to remove them, or --dry-run to list them",
            )
        show(plan, draw, as_json=False)
        if not typer.confirm(f"Remove {plan.removed} checkpoints?", err=True):
            return FAILED
    done = anyio.run(_remove, asked, plan)
    show(done, draw, as_json=as_json)
    return FAILED if done.left else DONE


def _asked(
    place: str | None,
    threads: list[str],
    older_than: str | None,
    keep_last: int | None,
    *,
    vacuum: bool,
) -> _Asked:
    """Check the arguments.

    Raises:
        UsageError: neither an age nor a number says what to remove, or an argument is invalid.
    """
    from actorgraph.cli.places import database_named
    from actorgraph.cli.retention_plan import seconds_of

    if older_than is None and keep_last is None:
        raise UsageError(
            "nothing says what to remove", do="pass --older-than 30d, or --keep-last 100"
        )
    age_s = None if older_than is None else seconds_of(older_than)
    return _Asked(database_named(place), threads, age_s, keep_last, vacuum)


async def _plan(asked: _Asked) -> PruneResult:
    from actorgraph.cli.places import open_saver
    from actorgraph.cli.retention_plan import planned
    from actorgraph.internals import host_of

    async with open_saver(asked.db) as saver:
        threads = asked.threads or await saver.alist_threads()
        found, left = await planned(host_of(saver), [_removal(asked, each) for each in threads])
    removed = sum(row.removed for row in found)
    return PruneResult(dry_run=True, removed=removed, threads=found, left=left)


def _removal(asked: _Asked, thread: str) -> Any:
    from actorgraph.internals import Expire, KeepLast

    if asked.age_s is not None:
        before = int((time.time() - asked.age_s) * 1e6)
        return Expire(thread, before, asked.keep_last or 1)
    return KeepLast(thread, asked.keep_last or 1)


async def _remove(asked: _Asked, plan: PruneResult) -> PruneResult:
    import msgspec

    from actorgraph.cli.places import open_saver
    from actorgraph.internals import DAMAGED, UNREADABLE, Committed, host_of

    removed, freed, left = 0, 0, list(plan.left)
    async with open_saver(asked.db, read_only=False) as saver:
        requests = [_removal(asked, row.thread_id) for row in plan.threads]
        for outcome in await host_of(saver).writer.store_each(*requests) if requests else ():
            if isinstance(outcome, Committed):
                removed += outcome.removed
            else:
                left.append(str(outcome))
        try:
            freed = await saver.avacuum() if asked.vacuum else 0
        except (*UNREADABLE, *DAMAGED) as error:  # of a thread; the others are vacuumed
            left.append(str(error))
    texts = tuple(dict.fromkeys(left))
    return msgspec.structs.replace(plan, dry_run=False, removed=removed, freed=freed, left=texts)


def draw(out: "Console", found: PruneResult) -> None:
    """Draw a line for each thread, and the sum."""
    from rich.table import Table

    verb = "would be removed" if found.dry_run else "removed"
    table = Table("thread", verb, "kept", box=None, pad_edge=False)
    for row in found.threads[:SHOWN_MAX]:
        table.add_row(row.thread_id, str(row.removed), str(row.kept))
    if found.threads:
        out.print(table)
    if (more := len(found.threads) - SHOWN_MAX) > 0:
        out.print(f"and {more} more threads")
    freed = f"; {found.freed} unused rows removed" if found.freed else ""
    out.print(f"{found.removed} checkpoints {verb}{freed}")
    for text in found.left:
        out.print(f"left as it is: {text}", markup=False)
