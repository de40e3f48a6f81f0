"""What `ainvoke` returns of how a run left."""

from collections.abc import Callable
from typing import Any

from actorgraph.errors import InvalidConfigError, ParentCommand
from actorgraph.plan.graph import Plan
from actorgraph.runtime.nested import NestedPlace, note_end, raise_above
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.output import GraphOutput
from actorgraph.values.run import Escaped, Failed, Interrupted, RunOutcome, Succeeded

Left = tuple[Any, tuple[Interrupt, ...] | None]
"""A run's output, and its open questions; None for one that has ended."""


def check_version(version: str) -> None:
    """Refuse a version that isn't there.

    Raises:
        InvalidConfigError: it isn't.
    """
    if version not in ("v1", "v2"):
        raise InvalidConfigError(f"version={version!r} is no version", do='use "v1" or "v2"')


def left(outcome: RunOutcome, place: NestedPlace | None) -> Left:
    """The output of a run, or the error that ended it."""
    match outcome:
        case Succeeded(values):
            return values, None
        case Interrupted(values, interrupts):
            if place is not None:
                raise_above(place, interrupts)
            return values, tuple(interrupts)
        case Failed(error):
            note_end(place, error)
            raise error
        case Escaped(command):
            raise ParentCommand(command)
        case _:
            raise AssertionError("a cancelled run raises its caller's cancellation")


def result_of(plan: Plan, run: Left, output_keys: object, version: str) -> Any:
    """A run's output in the shape that the call asks for.

    Args:
        output_keys: a name asks for the bare value under it; in "v1" a pause keeps the dict.
    """
    values, interrupts = run
    if version == "v2":
        picked = _picked(values, output_keys)
        if isinstance(values, dict) and not isinstance(output_keys, str):
            picked = in_schema(plan.make_output, values)
        return GraphOutput(picked, interrupts or ())
    if not interrupts:
        return _picked(values, output_keys)
    return {**(values if isinstance(values, dict) else {}), INTERRUPT: list(interrupts)}


def _picked(values: Any, output_keys: object) -> Any:
    return values.get(output_keys) if isinstance(output_keys, str) and values else values


def in_schema(make: Callable[..., Any] | None, state: dict[str, Any]) -> Any:
    """A state in the user's schema; a dict where that can't hold it, as before the input."""
    if make is None:
        return state
    try:
        return make(**state)
    except Exception:  # noqa: BLE001 - validators of the user's may raise anything
        return state
