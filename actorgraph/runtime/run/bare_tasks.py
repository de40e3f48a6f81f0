"""Tasks of a run's actors on asyncio: started one by one, in no task group.

A task group costs a short run more than its nodes do, and most runs start one task in all: that of
the actor of the node that is due. Nothing here cancels: each actor has a cancel scope of its own,
and the supervisor, which is cancelled with its caller, has the actors cancelled.

Ends       when all tasks have ended; the run waits for that even if it is cancelled
Errors     an actor never raises; if one does, that is reported at once and ends the run
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Self

from actorgraph.runtime.mailbox import wait_shielded


class BareTasks:
    """The tasks of one run; see the module's docstring.

    Args:
        crashed: takes the error of a task that has raised one.
    """

    __slots__ = ("_crashed", "_tasks")

    def __init__(self, crashed: Callable[[BaseException], None]) -> None:
        self._crashed = crashed
        self._tasks: list[asyncio.Task[Any]] = []  # held: the event loop does not hold them

    def start_soon(self, func: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(func(*args))
        self._tasks.append(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for all tasks, even if the caller is cancelled."""
        if kind is GeneratorExit:  # the event loop was closed: nothing can be awaited any more
            return
        while open_tasks := [task for task in self._tasks if not task.done()]:
            await wait_shielded(partial(_wait, open_tasks))


async def _wait(tasks: "list[asyncio.Task[Any]]") -> None:
    await asyncio.wait(tasks)
