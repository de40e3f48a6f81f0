"""Exit codes of the command, and the errors that carry one; `command_line.py` prints the errors."""

from actorgraph.errors import ActorGraphError, InvalidConfigError

DONE = 0
FAILED = 1
"""The work failed, or a check has found something."""
WRONG_USE = 2
"""An argument is wrong or missing; nothing was done."""
INTERRUPTED = 130
"""Ctrl-C."""


class CommandError(ActorGraphError):
    """A command could not do its work: exit code 1, one line on stderr."""


class UsageError(CommandError):
    """An argument is wrong or missing: exit code 2, one line on stderr."""


def code_of(error: BaseException) -> int:
    """Return the exit code that an error of a command leads to."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    wrong = isinstance(error, UsageError | InvalidConfigError)
    return WRONG_USE if wrong else FAILED
