"""Where tracing hooks in: one look per run, and nothing in a program that traces nothing.

A program traces when it has set a tracer provider of OpenTelemetry's; `spans` does the rest.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from actorgraph.runtime.loaded import loaded
from actorgraph.runtime.node_actor import Surroundings
from actorgraph.values.records import Restored
from actorgraph.values.run import RunOutcome

if TYPE_CHECKING:
    from actorgraph.runtime.runs import Launch


class Spans(Protocol):
    """The spans of one run.

    Attributes:
        launch: the run as it is to be launched, with its span named in its checkpoints.
    """

    launch: "Launch"

    def goes_on(self, restored: Restored) -> None:
        """Link the run to the one that made the checkpoint, if it takes that one up."""
        ...

    def watch(self, around: Surroundings, base: Callable[[], bytes]) -> None:
        """Make a span of each task.

        Args:
            around: what the run's tasks have in common; changed.
            base: the run's checkpoint, as it stands.
        """
        ...

    def end(self, outcome: RunOutcome | BaseException) -> None:
        """The run has left, or was refused before it began."""
        ...


def begun(launch: "Launch") -> Spans | None:
    """The span of a run that begins; None where nobody traces, or this run is not sampled."""
    api = loaded("opentelemetry.trace")
    if api is None:
        return None  # nobody can have set a provider
    if isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return None  # some package has imported it, and nobody has set one
    from actorgraph.runtime.spans import begin

    return begin(launch)
