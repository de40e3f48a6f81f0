"""Turn the outcome of a run into results, and stream items into chunks, in the shape asked for.

| asked for           | chunk                                           |
|---------------------|-------------------------------------------------|
| one mode            | `chunk`                                         |
| a list of modes     | `(mode, chunk)`                                 |
| one mode, subgraphs | `(namespace, chunk)`                            |
| both                | `(namespace, mode, chunk)`                      |
| version="v2"        | `{"type": mode, "ns": namespace, "data": chunk}`|
"""

from collections.abc import Callable
from typing import Any

from actorgraph.errors import InvalidConfigError, ParentCommand
from actorgraph.plan.graph import Plan
from actorgraph.runtime.nested import NestedPlace, note_end, raise_above
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.output import GraphOutput
from actorgraph.values.run import Escaped, Failed, Interrupted, RunOutcome, Succeeded

RunOutput = tuple[Any, tuple[Interrupt, ...] | None]
"""A run's output, and its pending interrupts; None for a run that has ended."""


def check_version(version: str) -> None:
    """Check the version of a call's output.

    Raises:
        InvalidConfigError: it is unknown.
    """
    if version not in ("v1", "v2"):
        raise InvalidConfigError(
            f'unknown version={version!r}; expected "v1" or "v2"', do='use "v1" or "v2"'
        )


def output_of(outcome: RunOutcome, place: NestedPlace | None) -> RunOutput:
    """Return the output of a run, or raise the error that ended it.

    Args:
        place: where a nested run was called; its interrupts and errors are raised there.
    """
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


def result_of(plan: Plan, run: RunOutput, output_keys: object, version: str) -> Any:
    """Return a run's output in the shape that the call asks for.

    Args:
        output_keys: one name asks for its bare value; in "v1" a run that waits at an interrupt
            still returns the dict.
        version: "v2" makes it a `GraphOutput`.
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
    """Convert a state to the user's schema; the dict if it doesn't fit, as before the input."""
    if make is None:
        return state
    try:
        return make(**state)
    except Exception:  # noqa: BLE001 - validators of the user's may raise anything
        return state
