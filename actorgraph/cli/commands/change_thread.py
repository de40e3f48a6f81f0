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
SHOWN = 5
"""Ids of runs that an error lists."""


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
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="Only this one, which may wait for its time."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Stored with the run.")
    ] = "cancelled by `actorgraph cancel`",
    db: Database = None,
    as_json: AsJson = False,
) -> int:
    """Cancel the open runs of a thread, in whatever process they are.

    Those that wait for their times stay; `--run` cancels one of them.
    They are runs of an ActorSystem, such as a server's. A run of `actorgraph run` ends by Ctrl-C.

    Example: actorgraph cancel t1 --db runs.db
    """
    import anyio

    from actorgraph.cli.output import show

    found = anyio.run(_cancel, db, thread, run, reason)
    show(found, _draw_cancelled, as_json=as_json)
    ended = all(run.status not in ("pending", "running") for run in found.runs)
    return DONE if ended else FAILED


async def _cancel(db: str | None, thread: str, run: str | None, reason: str) -> CancelledRuns:
    import anyio

    from actorgraph.cli.places import database_named, open_saver
    from actorgraph.cli.thread_reader import ThreadReader, has_thread, run_info
    from actorgraph.internals import OPEN_STATUSES, AskCancel, ListRuns, as_text

    async with open_saver(database_named(db), read_only=False, create=False) as saver:
        reader = ThreadReader(saver)
        found = await reader.runs(thread)
        rows = [
            row for row in found if (has_thread(row) if run is None else as_text(row.run) == run)
        ]
        if not rows:
            raise _none_open(thread, run, [as_text(row.run) for row in found])
        if not has_thread(rows[0]):
            await _end_waiting(reader.host, rows[0], reason)
            rows = await reader.host.reader.ask(ListRuns(among=(rows[0].run,)))
        elif not any(row.alive for row in rows):
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


async def _end_waiting(host: Any, row: Any, reason: str) -> None:
    """Cancel a run that waits for its time; no process has it.

    Raises:
        LeaseLostError: one has just taken it up.
    """
    from uuid_utils import uuid7

    from actorgraph.internals import AdoptRun, SetRun

    own = uuid7().bytes  # without a lease: another process would take the run over at once
    adopt = AdoptRun(row.run, row.thread_id, own, row.owner, row.attempts)
    # Handed over at once, so that they are one transaction.
    await host.writer.store(adopt, SetRun(row.run, row.thread_id, own, "cancelled", reason))


def _none_open(thread: str, run: str | None, waiting: list[str]) -> CommandError:
    """Make the error for a thread without such a run.

    Args:
        run: the one that was named; None for none.
        waiting: the ids of its other open runs.
    """
    which = "no open run of an ActorSystem" if run is None else f"no open run {run!r}"
    if not waiting:
        return CommandError(
            f"thread {thread!r} has {which}",
            do="look at it with `actorgraph show`; stop `actorgraph run` by Ctrl-C",
        )
    wait = "waits for its time" if len(waiting) == 1 else "wait for their times"
    others = f"{len(waiting)} {wait}" if run is None else f"its open runs: {len(waiting)}"
    return CommandError(
        f"thread {thread!r} has {which}; {others}",
        do=f"cancel one with `actorgraph cancel {thread} --run ID`: {', '.join(waiting[:SHOWN])}",
    )


def _draw_cancelled(out: Any, found: CancelledRuns) -> None:
    from actorgraph.cli.drawn import run_text

    run: RunInfo
    for run in found.runs:
        out.print(run_text(run), soft_wrap=True)
