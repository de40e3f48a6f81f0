"""`actorgraph doctor`: find mistakes in a program, its settings and its database."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from actorgraph.cli.command_group import CHECK, AsJson, group
from actorgraph.cli.exit_codes import DONE, FAILED

if TYPE_CHECKING:
    from rich.console import Console

    from actorgraph.cli.doctor.examining import Report

INDENT = "  "
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@group.command("doctor", rich_help_panel=CHECK)
def doctor(
    *,
    target: Annotated[
        str | None,
        typer.Argument(help="A database, or a program: runs.db, postgresql://..., app:graph."),
    ] = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="PLACE", help="The database, as in TARGET.")
    ] = None,
    app: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="A graph, an ActorSystem or an ASGI application."),
    ] = None,
    backend: Annotated[
        Literal["asyncio", "trio"] | None, typer.Option(help="The event loop of the program.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address that it will be served at.")] = "",
    given: Annotated[
        str,
        typer.Option("--input", metavar="JSON", help="An input to check; @module:name of a value."),
    ] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail too.")] = False,
    as_json: AsJson = False,
) -> int:
    """Find mistakes in a program, its settings and its database, and say what to do.

    Exit code 1 if an error was found, or with --strict a warning. Nothing is run or changed.

    Example: actorgraph doctor runs.db --app app:graph
    """
    import anyio

    from actorgraph.cli.doctor.examining import Asked, examine, places_of
    from actorgraph.cli.output import show

    database, program = places_of(target, db, app)
    report = anyio.run(examine, Asked(database, program, backend, host, given))
    show(report, draw, as_json=as_json)
    failing = ("error", "warning") if strict else ("error",)
    return FAILED if any(found.severity in failing for found in report.findings) else DONE


def draw(out: "Console", report: "Report") -> None:
    """Draw each finding with its place and its remedy, and the counts."""
    from rich.text import Text

    for name in report.examined:
        out.print(Text.assemble(("examined ", "dim"), name))
    for found in report.findings:
        place = f"{found.file}:{found.line}" if found.line else ""
        severity = (found.severity, STYLES[found.severity])
        head = Text.assemble(severity, " ", (found.code, "bold"), f"  {place}" if place else "")
        out.print()
        out.print(head)
        for part in (Text(found.text), Text.assemble(("do: ", "green"), found.do)):
            for line in part.wrap(out, max(20, out.width - len(INDENT))):
                line.rstrip()
                out.print(Text.assemble(INDENT, line))
    counts = {name: sum(f.severity == name for f in report.findings) for name in STYLES}
    total = ", ".join(
        f"{count} {name}s" if count != 1 else f"1 {name}" for name, count in counts.items()
    )
    out.print()
    out.print(total if report.findings else "no findings")
