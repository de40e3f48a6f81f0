"""`actorgraph check`: report what a new version of a graph does with the stored threads."""

from typing import TYPE_CHECKING, Annotated

import typer

from actorgraph.cli.command_group import CHECK, AsJson, Database, group
from actorgraph.cli.exit_codes import DONE, FAILED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from actorgraph.internals import SettingsGroup, ThreadCheckReport, ThreadGroup

STYLES = {"refused": "bold red", "migrated": "yellow", "fits": "green"}
WORDS = {"refused": "refused", "migrated": "go on by migrations", "fits": "go on"}


@group.command("check", rich_help_panel=CHECK)
def check(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:GRAPH", help="A graph, an ActorSystem, or what serves one."),
    ],
    *,
    db: Database = None,
    prefix: Annotated[str, typer.Option(help="Only threads whose id begins with this.")] = "",
    as_json: AsJson = False,
) -> int:
    """Report what a new version of a graph does with the stored threads. Nothing is run or changed.

    Threads are counted by the version that stored them and by what happens to them: they go on,
    go on by migrations, or are refused, with the Migration to write. With a system or an
    application, so are the assistants and crons of its store.
    Exit code 1 if a thread, an assistant or a cron is refused.

    Example: actorgraph check app:graph --db runs.db
    """
    import anyio

    from actorgraph.cli.output import show

    report = anyio.run(_check, target, db, prefix)
    show(report, draw, as_json=as_json)
    return FAILED if report.refused or report.refused_settings else DONE


async def _check(target: str, db: str | None, prefix: str) -> "ThreadCheckReport":
    from actorgraph.cli.doctor.served_facts import stores_in
    from actorgraph.cli.places import load_graphs
    from actorgraph.cli.program_check import check_program

    graphs, named = load_graphs(target)
    return await check_program(db, graphs, stores_in(named), prefix=prefix)


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
        lines = [*map(Text, found.migrated), *_reasons(found), _examples(found, "threads")]
        _indented(out, lines)
    for name, count in report.other_graphs.items():
        out.print()
        out.print(f"{_threads(count)} of another graph, {name or 'without a name'}: not checked")
    _draw_settings(out, report)
    if report.cures:
        out.print()
        out.print("Write what became of the names, in compile(migrations=[...]):")
        for cure in report.cures:
            out.print(f"  {cure},")


def _draw_settings(out: "Console", report: "ThreadCheckReport") -> None:
    """Draw what becomes of the assistants and crons of the program's store."""
    from rich.text import Text

    for found in report.settings:
        out.print()
        plural = found.kind + ("" if found.count == 1 else "s")
        head = (f"{found.count:,} {WORDS[found.verdict]}", STYLES[found.verdict])
        out.print(Text.assemble(head, f"  {plural} of graph {found.graph}"))
        _indented(out, [*_reasons(found), _examples(found, "ids")])
    for name, count in report.other_settings.items():
        out.print()
        which = f"graph {name}, which isn't among these" if name else "assistants that aren't there"
        out.print(f"{count:,} of the assistants and crons are of {which}: not checked")


def _indented(out: "Console", lines: "list[Text]") -> None:
    from rich.text import Text

    for line in lines:
        for part in line.wrap(out, max(20, out.width - 2)):
            part.rstrip()
            out.print(Text.assemble("  ", part))


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count:,} threads"


def _reasons(found: "ThreadGroup | SettingsGroup") -> "list[Text]":
    from rich.text import Text

    lines: list[Text] = []
    said = ""
    for reason in sorted(found.reasons, key=lambda each: each.do):
        if said and said != reason.do:
            lines.append(Text.assemble(("do: ", "green"), said))
        lines.append(Text(reason.text))
        said = reason.do
    if said:
        lines.append(Text.assemble(("do: ", "green"), said))
    return lines


def _examples(found: "ThreadGroup | SettingsGroup", of: str) -> "Text":
    from rich.text import Text

    more = ", ..." if found.count > len(found.examples) else ""
    return Text(f"{of}: {', '.join(found.examples)}{more}", style="dim")
