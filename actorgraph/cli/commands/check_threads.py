"""`actorgraph check`: report what a new version of a graph does with the stored threads."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from actorgraph.cli.command_group import CHECK, AsJson, Database, group
from actorgraph.cli.exit_codes import DONE, FAILED

if TYPE_CHECKING:
    from rich.console import Console

    from actorgraph.values.checked_threads import ThreadCheckReport, ThreadGroup

STYLES = {"refused": "bold red", "migrated": "yellow", "fits": "green"}
WORDS = {"refused": "refused", "migrated": "go on by migrations", "fits": "go on"}


@group.command("check", rich_help_panel=CHECK)
def check(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:GRAPH", help="A graph, or an ActorSystem: app:graph.")
    ],
    *,
    db: Database = None,
    prefix: Annotated[str, typer.Option(help="Only threads whose id begins with this.")] = "",
    as_json: AsJson = False,
) -> int:
    """Report what a new version of a graph does with the stored threads. Nothing is run or changed.

    Threads are counted by the version that stored them and by what happens to them: they go on,
    go on by migrations, or are refused, with the Migration to write.
    Exit code 1 if a thread is refused.

    Example: actorgraph check app:graph --db runs.db
    """
    import anyio

    from actorgraph.cli.output import show

    report = anyio.run(_check, target, db, prefix)
    show(report, draw, as_json=as_json)
    return FAILED if report.refused else DONE


async def _check(target: str, db: str | None, prefix: str) -> "ThreadCheckReport":
    from actorgraph.api.system.thread_checks import check_threads
    from actorgraph.cli.places import load_graphs, open_graphs

    async with open_graphs(db, load_graphs(target)) as (graphs, saver):
        return await check_threads(graphs, saver, prefix=prefix)


def draw(out: "Console", report: "ThreadCheckReport") -> None:
    """Draw the counts, each group with its reasons, and the migrations to paste."""
    from rich.text import Text

    out.print(
        f"{_threads(report.threads)}, {report.waiting:,} with something left to run, "
        f"{report.refused:,} refused"
    )
    for found in report.groups:
        out.print()
        head = Text.assemble(
            (f"{found.count:,} {WORDS[found.verdict]}", STYLES[found.verdict]),
            f"  {'waiting' if found.waits else 'at their end'}, stored by ",
            found.stored_graph or f"{found.graph} (its first run)",
        )
        out.print(head)
        for line in _lines_of(found):
            for part in line.wrap(out, max(20, out.width - 2)):
                part.rstrip()
                out.print(Text.assemble("  ", part))
    for name, count in report.other_graphs.items():
        out.print()
        out.print(f"{_threads(count)} of another graph, {name or 'without a name'}: not checked")
    if report.cures:
        out.print()
        out.print("Write what became of the names, in compile(migrations=[...]):")
        for cure in report.cures:
            out.print(f"  {cure},")


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count:,} threads"


def _lines_of(found: "ThreadGroup") -> list[Any]:
    from rich.text import Text

    lines = [Text(sentence) for sentence in found.migrated]
    said = ""
    for reason in sorted(found.reasons, key=lambda each: each.do):
        if said and said != reason.do:
            lines.append(Text.assemble(("do: ", "green"), said))
        lines.append(Text(reason.text))
        said = reason.do
    if said:
        lines.append(Text.assemble(("do: ", "green"), said))
    more = ", ..." if found.count > len(found.examples) else ""
    lines.append(Text(f"threads: {', '.join(found.examples)}{more}", style="dim"))
    return lines
