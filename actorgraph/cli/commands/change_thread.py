"""`actorgraph fork`, `update` and `cancel`: change one thread."""

from typing import Annotated, Any

import typer

from actorgraph.cli.command_group import (
    CHANGE,
    AsJson,
    Database,
    GraphName,
    ThreadId,
    group,
)
from actorgraph.cli.exit_codes import DONE, FAILED, CommandError
from actorgraph.cli.printed import CancelledRuns, MadeCheckpoint, RunInfo

CANCEL_S = 10.0
"""Seconds that `cancel` waits for the runs to end."""
POLL_S = 0.1


@group.command("fork", rich_help_panel=CHANGE)
def fork(
    thread: ThreadId,
    checkpoint: Annotated[str, typer.Argument(help="Its id or its step.")] = "latest",
    *,
    into: Annotated[
        str | None, typer.Option("--to", metavar="ID", help="The new thread; default a new id.")
    ] = None,
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """Copy a checkpoint to a new thread, which goes on from there.

    Example: actorgraph fork t1 2 --to t1-again --graph app.py:graph --db runs.db
    """
    import anyio

    made = anyio.run(_fork, db, graph, thread, checkpoint, into)
    _show_new(made, graph, db, as_json=as_json)


async def _fork(
    db: str | None, graph: str | None, thread: str, checkpoint: str, into: str | None
) -> MadeCheckpoint:
    from uuid_utils import uuid7

    from actorgraph.cli.places import load_graph, open_thread_place
    from actorgraph.cli.thread_reader import ThreadReader

    async with open_thread_place(db, load_graph(graph)) as bound:
        found = await ThreadReader(bound.checkpointer, bound).step(thread, checkpoint)
        made = await bound.afork_state(found.config, into or str(uuid7()))
    return _new(made)


@group.command("update", rich_help_panel=CHANGE)
def update(
    thread: ThreadId,
    values: Annotated[str, typer.Argument(metavar="VALUES", help="JSON, @file, or - for stdin.")],
    *,
    as_node: Annotated[
        str | None,
        typer.Option("--as-node", metavar="NODE", help="As if this node had returned them."),
    ] = None,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Branch off from an earlier one: its id or step.")
    ] = "latest",
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """Write values into a thread, as if a node had returned them.

    Example: actorgraph update t1 '{"text": "better"}' --as-node draft --graph app.py:graph
    """
    import anyio

    made = anyio.run(_update, db, graph, (thread, checkpoint), values, as_node)
    _show_new(made, graph, db, as_json=as_json)


async def _update(
    db: str | None, graph: str | None, at: tuple[str, str], values: str, as_node: str | None
) -> MadeCheckpoint:
    from actorgraph.cli.json_arguments import json_of
    from actorgraph.cli.places import load_graph, open_thread_place
    from actorgraph.cli.thread_reader import ThreadReader, place_of

    given = json_of(values, "VALUES")
    async with open_thread_place(db, load_graph(graph)) as bound:
        found = await ThreadReader(bound.checkpointer, bound).step(*at)
        # The newest is named by its thread, so that its pending tasks are taken over.
        config = place_of(at[0]) if at[1] == "latest" else found.config
        return _new(await bound.aupdate_state(config, given, as_node))


def _new(config: dict[str, Any]) -> MadeCheckpoint:
    place = config["configurable"]
    return MadeCheckpoint(place["thread_id"], place["checkpoint_id"])


def _show_new(made: MadeCheckpoint, graph: str | None, db: str | None, *, as_json: bool) -> None:
    from actorgraph.cli.drawn import command
    from actorgraph.cli.output import console, print_json, without_password

    if as_json:
        print_json(made)
        return
    out = console()
    out.print(f"thread {made.thread_id} is at checkpoint {made.checkpoint_id}", soft_wrap=True)
    where = ["--db", without_password(db)] if db else []
    more = command("resume", made.thread_id, "--graph", graph or "", *where)
    out.print(f"\nGo on:\n  {more}", soft_wrap=True)


@group.command("cancel", rich_help_panel=CHANGE)
def cancel(
    thread: ThreadId,
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="Stored with the run.")
    ] = "cancelled by `actorgraph cancel`",
    db: Database = None,
    as_json: AsJson = False,
) -> int:
    """Cancel the open runs of a thread, in whatever process they are.

    They are runs of an ActorSystem, such as a server's. A run of `actorgraph run` ends by Ctrl-C.

    Example: actorgraph cancel t1 --db runs.db
    """
    import anyio

    from actorgraph.cli.output import show

    found = anyio.run(_cancel, db, thread, reason)
    show(found, _draw_cancelled, as_json=as_json)
    ended = all(run.status not in ("pending", "running") for run in found.runs)
    return DONE if ended else FAILED


async def _cancel(db: str | None, thread: str, reason: str) -> CancelledRuns:
    import anyio

    from actorgraph.cli.places import database_named, open_saver
    from actorgraph.cli.thread_reader import ThreadReader, has_thread, run_info
    from actorgraph.values.systems import OPEN_STATUSES, AskCancel, ListRuns

    async with open_saver(database_named(db), read_only=False, create=False) as saver:
        reader = ThreadReader(saver)
        rows = [row for row in await reader.runs(thread) if has_thread(row)]
        if not rows:
            raise CommandError(
                f"thread {thread!r} has no open run of an ActorSystem",
                do="look at it with `actorgraph show`; stop `actorgraph run` by Ctrl-C",
            )
        if not any(row.alive for row in rows):
            raise CommandError(
                f"the process that had the run of thread {thread!r} is gone",
                do="open the application again: it takes the run over, and then cancel it",
            )
        await reader.host.writer.store(
            *[AskCancel(row.run, row.thread_id, reason) for row in rows if row.alive]
        )
        known = tuple(row.run for row in rows)
        with anyio.move_on_after(CANCEL_S):
            while any(row.alive and row.status in OPEN_STATUSES for row in rows):
                await anyio.sleep(POLL_S)
                rows = await reader.host.reader.ask(ListRuns(among=known))
        return CancelledRuns(thread, tuple(map(run_info, rows)))


def _draw_cancelled(out: Any, found: CancelledRuns) -> None:
    from actorgraph.cli.drawn import run_text

    run: RunInfo
    for run in found.runs:
        out.print(run_text(run), soft_wrap=True)
