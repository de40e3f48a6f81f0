"""State schemas: how they are read as channels, and the managed values that they may declare.

TypedDict, dataclass, pydantic model, msgspec.Struct, or a bare type. Each annotated key is one
channel. `Annotated[T, f]` folds writes with f; `Annotated[T, C]` with a channel C is that channel;
every other key keeps its last value.

Managed values are state keys that the runtime computes for nodes and that nothing writes.
`last: IsLastStep` and `left: RemainingSteps` show a node how far the run is from its recursion
limit. They are not channels: no checkpoint, stream or output has them.
"""

from typing import Annotated, Any


class Managed:
    """A rule that computes a value from the number of supersteps that a run may still take."""

    @staticmethod
    def value(steps_left: int) -> Any:
        """Compute the value.

        Args:
            steps_left: supersteps that may follow the one that runs now.
        """
        raise NotImplementedError


class IsLastStepManager(Managed):
    """Whether at most one superstep may follow."""

    @staticmethod
    def value(steps_left: int) -> bool:
        """Compare with 1."""
        return steps_left <= 1


class RemainingStepsManager(Managed):
    """The number of supersteps that may follow the one that runs now."""

    @staticmethod
    def value(steps_left: int) -> int:
        """Return `steps_left`."""
        return steps_left


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]
