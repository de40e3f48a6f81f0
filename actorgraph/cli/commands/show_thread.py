"""`actorgraph show`, `history` and `diff`: read one thread."""

from typing import Annotated

import typer

from actorgraph.cli.command_group import (
    LOOK,
    AsJson,
    Database,
    GraphName,
    ThreadId,
    group,
)
from actorgraph.cli.printed import StateDiff, ThreadHistory, ThreadShown, ValueChange


@group.command("show", rich_help_panel=LOOK)
def show_thread(
    thread: ThreadId,
    *,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Show an earlier one: its id or its step.")
    ] = "latest",
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """Show a thread: its status, values, next nodes and open questions.

    Example: actorgraph show t1 --db runs.db
    """
    import anyio

    from actorgraph.cli.drawn import draw_state
    from actorgraph.cli.output import show

    found = anyio.run(_state, db, graph, thread, checkpoint)
    show(found, draw_state, as_json=as_json)


async def _state(db: str | None, graph: str | None, thread: str, checkpoint: str) -> ThreadShown:
    from actorgraph.cli.places import open_reader
    from actorgraph.cli.thread_reader import thread_state

    async with open_reader(db, graph) as reader:
        found = await reader.step(thread, checkpoint)
        runs = await reader.runs_of([thread]) if checkpoint == "latest" else {}
        return thread_state(thread, found, runs.get(thread, ()))


@group.command("history", rich_help_panel=LOOK)
def history(
    thread: ThreadId,
    *,
    limit: Annotated[int, typer.Option(min=1, help="The most checkpoints.")] = 20,
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """List the checkpoints of a thread, newest first.

    Example: actorgraph history t1 --db runs.db
    """
    import anyio

    from actorgraph.cli.drawn import draw_history
    from actorgraph.cli.output import show

    found = anyio.run(_history, db, graph, thread, limit)
    show(found, draw_history, as_json=as_json)


async def _history(db: str | None, graph: str | None, thread: str, limit: int) -> ThreadHistory:
    from actorgraph.cli.places import open_reader
    from actorgraph.cli.thread_reader import checkpoint_line

    async with open_reader(db, graph) as reader:
        steps = await reader.steps(thread, limit + 1)
        runs = (await reader.runs_of([thread])).get(thread, ())
        lines = tuple(
            checkpoint_line(step, runs, is_head=at == 0) for at, step in enumerate(steps[:limit])
        )
        return ThreadHistory(thread, lines, more=len(steps) > limit)


@group.command("diff", rich_help_panel=LOOK)
def diff(
    thread: ThreadId,
    before: Annotated[str, typer.Argument(help="A checkpoint: its id or its step.")],
    after: Annotated[str, typer.Argument(help="Another one.")] = "latest",
    *,
    db: Database = None,
    graph: GraphName = None,
    as_json: AsJson = False,
) -> None:
    """Compare the states of two checkpoints of a thread.

    Example: actorgraph diff t1 0 2 --db runs.db
    """
    import anyio

    from actorgraph.cli.drawn import draw_diff
    from actorgraph.cli.output import show

    found = anyio.run(_diff, db, graph, thread, (before, after))
    show(found, draw_diff, as_json=as_json)


async def _diff(
    db: str | None, graph: str | None, thread: str, names: tuple[str, str]
) -> StateDiff:
    from actorgraph.cli.places import open_reader
    from actorgraph.studio.changes import changes
    from actorgraph.studio.steps import checkpoint_of
    from actorgraph.web.http.jsonable import to_plain

    async with open_reader(db, graph) as reader:
        before, after = [await reader.step(thread, name) for name in names]
    found = changes(to_plain(before.values), to_plain(after.values))
    rows = tuple(ValueChange(row.path, row.kind, row.before, row.after) for row in found.rows)
    return StateDiff(thread, checkpoint_of(before), checkpoint_of(after), rows, found.more)
