"""Managed values: state keys that the runtime computes for whoever reads them. Nothing writes them.

`last: IsLastStep` and `left: RemainingSteps` in a state schema tell a node how far the run is from
its recursion limit. They are no channels: no checkpoint, stream or output has them.
"""

from typing import Annotated, Any


class Managed:
    """A rule that makes a value from how many supersteps a run may still take."""

    @staticmethod
    def value(steps_left: int) -> Any:
        """The value.

        Args:
            steps_left: supersteps that may follow the one that runs now.
        """
        raise NotImplementedError


class IsLastStepManager(Managed):
    """Whether at most one superstep may follow: the time to come to an end."""

    @staticmethod
    def value(steps_left: int) -> bool:
        """See the class."""
        return steps_left <= 1


class RemainingStepsManager(Managed):
    """How many supersteps may follow the one that runs now."""

    @staticmethod
    def value(steps_left: int) -> int:
        """See the class."""
        return steps_left


IsLastStep = Annotated[bool, IsLastStepManager]
RemainingSteps = Annotated[int, RemainingStepsManager]
