"""Answers by id for one thread: checked before a run begins that brings them."""

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol, cast

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


class StoredGraph(Protocol):
    """A graph, as far as answers are checked for it."""

    @property
    def plan(self) -> Plan:
        """Its static part."""
        ...

    async def aget_state(self, config: Config) -> StateSnapshot:
        """Read a thread's state."""
        ...


async def checked_command(
    graph: StoredGraph,
    thread: Config | str,
    command: Command[Any] | None,
    answers: Mapping[str, Any],
    options: object,
) -> Command[Any]:
    """Check answers by id and make the Command that brings them.

    Args:
        command: an update or a goto that goes with them, or None.
        options: of the call; gets `strict_resume`.
    Raises:
        UnknownInterruptError, AlreadyResumedError, InvalidResumeError: see `check_answers`.
        InvalidConfigError: `command` has an answer too.
    """
    made = with_answers(command, answers)
    config = config_of(thread)
    state, refusal = await graph.aget_state(config), refusal_in(graph.plan, shown=True)
    check_answers(answers, state.interrupts, str(config["configurable"]["thread_id"]), refusal)
    cast("MutableMapping[str, Any]", options)["strict_resume"] = True
    return made
