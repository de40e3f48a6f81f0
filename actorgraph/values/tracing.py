"""TracePolicy: how an exporter of traces records a node's inputs and outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """The values to record of a node's calls. It never changes the node's inputs and outputs.

    The spans that this library makes hold no values. The policy is kept as `NodePlan.trace`, for
    an exporter that records them; the run and its streams show everything. It can't hide secrets:
    if a function raises, the real value is recorded.

    Attributes:
        process_inputs: makes the recorded input of the real one; None records the real one.
        process_outputs: the same for outputs.
    """

    process_inputs: Callable[[Any], Any] | None = None
    process_outputs: Callable[[Any], Any] | None = None

    def recorded_input(self, value: Any) -> Any:
        """Make the value to record of an input."""
        return _made(self.process_inputs, value)

    def recorded_output(self, value: Any) -> Any:
        """Make the value to record of an output."""
        return _made(self.process_outputs, value)


def omit_payload(value: Any) -> dict[str, Any]:
    """Record nothing of a value: for `TracePolicy(process_inputs=omit_payload)`."""
    del value
    return {}


def _made(process: Callable[[Any], Any] | None, value: Any) -> Any:
    if process is None:
        return value
    try:
        return process(value)
    except Exception:  # noqa: BLE001 - a user's function, which must not break the traced run
        return value
