"""The time limit of supersteps, `step_timeout`."""

from collections.abc import Callable

import anyio

from actorgraph.runtime.run.node_actor import Spawns
from actorgraph.values.run import Event, StepTimedOut


class StepTimer:
    """Limits the time of each superstep; one per run whose graph has a `step_timeout`."""

    def __init__(self, seconds: float, report: Callable[[Event], None]) -> None:
        self._seconds = seconds
        self._report = report
        self._step: int | None = None
        self._waiting: anyio.CancelScope | None = None

    def begin(self, step: int, group: Spawns) -> None:
        """Start the time of the superstep after a step; called for each of its tasks."""
        if step != self._step:
            self.stop()
            self._step = step
            self._waiting = anyio.CancelScope()
            group.start_soon(self._wait, step, self._waiting)

    def stop(self) -> None:
        """Stop the running timer."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def _wait(self, step: int, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep(self._seconds)
            self._report(StepTimedOut(step))
