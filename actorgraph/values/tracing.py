"""TracePolicy: what a tracer is to record of a node instead of its whole input and output.

The spans that this library makes hold no values. The policy is kept with the node, as
`NodePlan.trace`, for an exporter that records them; the run and its streams show everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """What to record of a node's calls. It never changes what the node gets or returns.

    Not a way to hide secrets: a function that raises leaves the value as it is.

    Attributes:
        process_inputs, process_outputs: make the recorded value of the real one; None for as is.
    """

    process_inputs: Callable[[Any], Any] | None = None
    process_outputs: Callable[[Any], Any] | None = None

    def recorded_input(self, value: Any) -> Any:
        """What is to be recorded of an input."""
        return _made(self.process_inputs, value)

    def recorded_output(self, value: Any) -> Any:
        """What is to be recorded of an output."""
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
    except Exception:  # noqa: BLE001 - it is the user's, and must not break what is traced
        return value
