"""`main`: the command `actorgraph`, from its arguments to its exit code.

Exit codes: 0 done; 1 failed, or a check has found something; 2 wrong use; 130 Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from actorgraph.cli.exit_codes import DONE, FAILED, INTERRUPTED, WRONG_USE, code_of

COMMAND_FILES = (
    "run_graph",
    "list_threads",
    "show_thread",
    "tail_thread",
    "watch_figures",
    "change_thread",
    "retry_runs",
    "draw_graph",
    "prune_history",
    "move_threads",
    "older_tools",
    "serve_system",
    "examine",
    "check_threads",
)
"""The files in `commands/`, in the order of the help."""

NEEDED = ("typer", "rich")
"""Packages of the extra `cli`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    Args:
        arguments: default those of the process.
    """
    if any(find_spec(name) is None for name in NEEDED):
        sys.stderr.write("The command needs its extra: pip install 'actorgraph[cli]'\n")
        return WRONG_USE
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except BaseExceptionGroup as group:  # the same within a run, where rich makes it SystemExit
        if group.split((BrokenPipeError, SystemExit))[1] is not None:
            raise
        return DONE


def command_group() -> Any:
    """Return the Typer application with all commands."""
    from actorgraph.cli.command_group import group

    for name in COMMAND_FILES:
        import_module(f"actorgraph.cli.commands.{name}")
    return group


def _run(given: list[str]) -> int:
    from typer import Abort, TyperException
    from typer.main import get_command

    from actorgraph.cli.output import print_error

    state: dict[str, Any] = {}
    try:
        code = get_command(command_group()).main(
            given, prog_name="actorgraph", standalone_mode=False, obj=state
        )
        sys.stdout.flush()
    except TyperException as error:
        return _refuse(error)
    except (Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - each error of a command becomes one line
        if isinstance(_cause(error), BrokenPipeError):
            raise _cause(error) from None
        if state.get("traceback"):
            import traceback

            traceback.print_exc()
            return code_of(error)
        print_error(_cause(error), as_json="--json" in given)
        return code_of(_cause(error))
    return code if isinstance(code, int) else DONE


def _refuse(error: Any) -> int:
    """Print one line about wrong arguments; `actorgraph` alone prints the help."""
    context = getattr(error, "ctx", None)
    path = "actorgraph" if context is None else context.command_path
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return WRONG_USE
    text = " ".join(error.format_message().split())
    ending = "" if text.endswith((".", "!", "?")) else "."
    sys.stderr.write(f"actorgraph: {text}{ending} Do this: {path} --help\n")
    return error.exit_code or FAILED


def _cause(error: Exception) -> Exception:
    """Return the only error of a group of errors."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
