"""`actorgraph migrate` and `actorgraph codemod`: threads and programs of LangGraph."""

from pathlib import Path
from typing import Annotated

import typer

from actorgraph.cli.command_group import KEEP, group


@group.command("migrate", rich_help_panel=KEEP)
def migrate(
    source: Annotated[
        str, typer.Argument(help="LangGraph's SQLite file, or a postgresql:// address.")
    ],
    target: Annotated[str, typer.Argument(help="The SQLite file of actorgraph's SqliteSaver.")],
    *,
    thread: Annotated[
        list[str] | None, typer.Option(help="Only this thread; may be repeated.")
    ] = None,
    threads_max: Annotated[int | None, typer.Option(help="Read at most this many threads.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report without storing.")] = False,
) -> int:
    """Move the threads of LangGraph's database into a SQLite file of actorgraph.

    Exit code 1 if a thread can't be moved. See docs/migrating.md.

    Example: actorgraph migrate langgraph.db runs.db --dry-run
    """
    from actorgraph.migrate.__main__ import main

    given = [source, target, *(["--dry-run"] if dry_run else [])]
    for each in thread or ():
        given += ["--thread", each]
    if threads_max is not None:
        given += ["--threads-max", str(threads_max)]
    return main(given)


@group.command("codemod", rich_help_panel=KEEP)
def codemod(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.")],
    *,
    write: Annotated[bool, typer.Option("--write", help="Change the files.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only the report.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Places to look at, as JSON lines.")
    ] = None,
) -> int:
    """Rewrite a program's LangGraph imports; without --write, print a diff.

    Exit code 1 if something is left to do by hand.

    Example: actorgraph codemod src --write
    """
    from actorgraph.cli.codemod import main
    from actorgraph.cli.exit_codes import UsageError

    if write and check:
        raise UsageError("--write and --check exclude each other", do="use one of them")
    given = [str(path) for path in paths]
    given += [f"--{name}" for name, on in (("write", write), ("check", check)) if on]
    return main([*given, *(["--report", str(report)] if report else [])])
