"""The call actor: performs the calls of one `@task` function, each in a task of its own."""

from typing import Any

import anyio

from actorgraph.runtime.node_actor import NodeActor
from actorgraph.values.run import StartTask, TaskCancelled


class CallActor(NodeActor):
    """A node actor whose tasks may be stopped one by one. It ends with the run's task group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: dict[str, anyio.CancelScope] = {}

    def assign(self, start: StartTask) -> None:
        """Give it a call. Never waits."""
        self._running += 1
        self._most = max(self._most, self._running)
        scope = self._open[start.task.id] = anyio.CancelScope()
        self._group.start_soon(self._call, start, scope)

    def stop_call(self, identifier: str) -> None:
        """Stop one call, if it is here."""
        scope = self._open.get(identifier)
        if scope is not None:
            scope.cancel()

    def cancel(self) -> None:
        """See `NodeActor.cancel`."""
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
        """The call has ended; the report of that may have begun it anew already."""
        if self._open.get(identifier) is scope:
            del self._open[identifier]
