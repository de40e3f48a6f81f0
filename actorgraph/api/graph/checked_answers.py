"""Answers by id for one thread: checked before a run begins that brings them."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, cast

from actorgraph.api.config import config_of
from actorgraph.api.graph.answer_types import refusal_of
from actorgraph.plan.plan import Plan
from actorgraph.superstep.answers import Refusal, by_schema, check_answers, with_answers
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.configs import Config
from actorgraph.values.state_snapshot import StateSnapshot


def refusal_in(plan: Plan, *, shown: bool) -> Refusal:
    """Judge answers by the types that a graph's questions expect.

    Args:
        shown: whether the JSON schema that a question shows decides where its type isn't found.
    """

    def refusal(question: Interrupt, answer: Any) -> str | None:
        known, wrong = refusal_of(plan, question, answer)
        return by_schema(question, answer) if shown and not known else wrong

    return refusal


async def checked_command(
    read: Callable[[Config], Awaitable[StateSnapshot]],
    thread: Config | str,
    command: Command[Any] | None,
    answers: Mapping[str, Any],
    options: object,
    *,
    plan: Plan,
) -> Command[Any]:
    """Check answers by id and make the Command that brings them.

    Args:
        read: `aget_state` of the graph.
        command: an update or a goto that goes with them, or None.
        options: of the call; gets `strict_resume`.
        plan: of the graph.
    Raises:
        UnknownInterruptError, AlreadyResumedError, InvalidResumeError: see `check_answers`.
        InvalidConfigError: `command` has an answer too.
    """
    made = with_answers(command, answers)
    config = config_of(thread)
    state, refusal = await read(config), refusal_in(plan, shown=True)
    check_answers(answers, state.interrupts, str(config["configurable"]["thread_id"]), refusal)
    cast("MutableMapping[str, Any]", options)["strict_resume"] = True
    return made
