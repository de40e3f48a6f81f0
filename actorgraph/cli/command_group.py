"""The Typer application, and the options that commands share.

A file in `commands/` adds a command so, and imports the rest of the library inside its function,
because the help imports every command file:

    @group.command("threads", rich_help_panel=LOOK)
    def threads(db: Database = None, as_json: AsJson = False) -> int:

The docstring is the help text; its last paragraph is `Example: actorgraph ...`. The returned
integer is the exit code (None: 0).
"""

import os
from typing import Annotated, Any

import typer

RUN = "Run"
LOOK = "Look"
CHANGE = "Change"
KEEP = "Keep and move data"
SERVE = "Serve"
CHECK = "Check"
"""The sections of the help."""

group = typer.Typer(
    name="actorgraph",
    help="Run durable graphs, and look into the databases of their threads.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _thread_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Complete a thread's id from a local database; nothing where that fails or would take long."""
    place = context.params.get("db") or os.environ.get("ACTORGRAPH_DB") or ""
    if "://" in place or not os.path.isfile(place):  # noqa: PTH113 - quicker to import
        return []
    try:
        from actorgraph.checkpoints import SqliteSaver

        with SqliteSaver(place, read_only=True, busy_timeout_s=0.2) as saver:
            ids = saver.list_threads()
    except Exception:  # noqa: BLE001 - a completion that fails must not write into the prompt
        return []
    return [one for one in ids if one.startswith(incomplete)][:COMPLETIONS_MAX]


COMPLETIONS_MAX = 200
"""Ids that a completion offers."""

Database = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="PLACE",
        envvar="ACTORGRAPH_DB",
        help="runs.db, postgresql://..., a folder of JSON lines, or module:saver.",
        show_default=False,
    ),
]
GraphName = Annotated[
    str | None,
    typer.Option(
        "--graph",
        metavar="MODULE:GRAPH",
        envvar="ACTORGRAPH_GRAPH",
        help="The thread's graph: app:graph, or app.py:graph.",
        show_default=False,
    ),
]
ThreadId = Annotated[
    str,
    typer.Argument(metavar="THREAD", help="A thread's id.", autocompletion=_thread_ids),
]
Backend = Annotated[str, typer.Option("--backend", help="The event loop: asyncio or trio.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@group.callback()
def common(
    context: typer.Context,
    traceback: Annotated[
        bool,
        typer.Option(
            "--traceback",
            envvar="ACTORGRAPH_TRACEBACK",
            help="Show where an error comes from, instead of one line.",
        ),
    ] = False,
) -> None:
    """Run durable graphs, and look into the databases of their threads."""
    found: dict[str, Any] = context.ensure_object(dict)
    found["traceback"] = traceback
