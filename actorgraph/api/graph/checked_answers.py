"""Answers by id for one thread: checked before a run begins that brings them."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, cast

from actorgraph.api.config import config_of
from actorgraph.superstep.answers import check_answers, with_answers
from actorgraph.values.commands import Command
from actorgraph.values.configs import Config
from actorgraph.values.state_snapshot import StateSnapshot


async def checked_command(
    read: Callable[[Config], Awaitable[StateSnapshot]],
    thread: Config | str,
    command: Command[Any] | None,
    answers: Mapping[str, Any],
    options: object,
) -> Command[Any]:
    """Check answers by id and make the Command that brings them.

    Args:
        read: `aget_state` of the graph.
        command: an update or a goto that goes with them, or None.
        options: of the call; gets `strict_resume`.
    Raises:
        UnknownInterruptError, AlreadyResumedError, InvalidResumeError: see `check_answers`.
        InvalidConfigError: `command` has an answer too.
    """
    made = with_answers(command, answers)
    config = config_of(thread)
    state = await read(config)
    check_answers(answers, state.interrupts, str(config["configurable"]["thread_id"]))
    cast("MutableMapping[str, Any]", options)["strict_resume"] = True
    return made
