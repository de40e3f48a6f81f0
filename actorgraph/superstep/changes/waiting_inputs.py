"""Inputs that wait for their run, under a graph that has changed since they were accepted."""

from collections.abc import Iterator
from typing import Any, cast

from actorgraph.errors import ActorGraphError, did_you_mean
from actorgraph.plan.plan import Plan
from actorgraph.superstep.results import writes_of
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import END
from actorgraph.values.graph_changes import Finding, FindingKind

INPUT_MIGRATED = "the input of a run that waits is migrated"


def refused_input(plan: Plan, input_value: Any, what: str) -> Finding | None:
    """Find out why an input of another version is not one of the graph, if that is so.

    Args:
        input_value: the input or Command, by today's names; None if nothing waits.
        what: the clause that it begins with: "a run waits whose input".
    """
    if input_value is None:
        return None
    if isinstance(input_value, Command):
        return next(_in_command(plan, cast("Command[Any]", input_value), what), None)
    try:
        _, dropped = writes_of(plan, plan.start, input_value)
    except ActorGraphError as error:
        return Finding(
            FindingKind.VALUE,
            "input",
            f"{what} was for another version",
            f"which graph {plan.title!r} refuses: {error.what}",
            "",
            error.do or "let the version that accepted it run it",
        )
    return _left_out(plan, what, "; ".join(dropped), _names(plan, input_value)) if dropped else None


def _names(plan: Plan, input_value: Any) -> list[str]:
    keys = cast("dict[Any, Any]", input_value) if isinstance(input_value, dict) else ()
    return [key for key in keys if isinstance(key, str) and key not in plan.channels]


def _left_out(plan: Plan, what: str, which: str, keys: list[str]) -> Finding:
    cure = f"Migration(channels={{{keys[0]!r}: 'its new name'}})" if keys else ""
    advice = f"compile(migrations=[{cure}]), None drops it; or " if cure else ""
    return Finding(
        FindingKind.CHANNEL,
        "input",
        f"{what} was for another version",
        f"of which graph {plan.title!r} would leave out a part: {which}",
        cure,
        f"{advice}let the version that accepted it run it, or add the key",
    )


def _in_command(plan: Plan, command: Command[Any], what: str) -> Iterator[Finding]:
    for name in _targets(command.goto):
        if name not in plan.nodes and name != END:
            cure = f"Migration(nodes={{{name!r}: 'its new name'}})"
            yield Finding(
                FindingKind.NODE,
                name,
                f"{what} goes to node {name!r}",
                f"which graph {plan.title!r} doesn't have",
                cure,
                f"{did_you_mean(name, sorted(plan.nodes))}; compile(migrations=[{cure}]); or let "
                "the version that accepted it run it",
            )
    keys = _names(plan, command.update)
    if keys:
        which = f"the update has {', '.join(map(repr, keys))}, which it has no channel for"
        yield _left_out(plan, what, which, keys)


def _targets(goto: Any) -> Iterator[str]:
    for one in goto if isinstance(goto, list | tuple) else [goto]:
        if isinstance(one, Send):
            yield one.node
        elif isinstance(one, str):
            yield one
