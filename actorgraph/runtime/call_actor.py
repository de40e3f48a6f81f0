"""The call actor: runs the calls of one `@task` function, each in a task of its own."""

from typing import Any

import anyio

from actorgraph.runtime.node_actor import NodeActor
from actorgraph.values.run import StartTask, TaskCancelled


class CallActor(NodeActor):
    """A node actor whose calls can be stopped one by one. It ends with the run's task group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[str, anyio.CancelScope] = {}

    def assign(self, start: StartTask) -> None:
        """Start a call. Never waits."""
        self._running += 1
        self._running_max = max(self._running_max, self._running)
        scope = self._open[start.task.id] = anyio.CancelScope()
        self._group.start_soon(self._call, start, scope)

    def stop_call(self, identifier: str) -> None:
        """Stop one call, if it runs here."""
        scope = self._open.get(identifier)
        if scope is not None:
            scope.cancel()

    def cancel(self) -> None:
        """Stop all calls."""
        for scope in self._open.values():
            scope.cancel()

    async def _call(self, start: StartTask, scope: anyio.CancelScope) -> None:
        identifier = start.task.id
        if scope.cancel_called:
            self._forget(identifier, scope)
            self._end(TaskCancelled(identifier))
            return
        try:
            with scope:
                await self._perform(start)
        finally:
            self._forget(identifier, scope)

    def _forget(self, identifier: str, scope: anyio.CancelScope) -> None:
        """Remove the scope of a call that has ended."""
        # The report of its end may have started the same call anew, with another scope.
        if self._open.get(identifier) is scope:
            del self._open[identifier]
