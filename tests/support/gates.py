"""Order without sleeping: gates that block nodes, and waits with a timeout.

No test sleeps to let something happen first. It waits for what happens, and a wait that a bug
makes endless ends after PATIENCE_S with an error.
"""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from actorgraph.testing import GatedSaver

PATIENCE_S = 10.0


class Turnstile:
    """A node that says when it is in, and goes on when it is let out.

    Use it as an async node: `add_node("slow", Turnstile({"bar": ["slow"]}))`.

    Attributes:
        entered: set once a call is in. calls: how often it was called.
        closed: how often a call has left, whichever way.
    """

    def __init__(self, update: Any = None) -> None:
        self.update = update
        self.entered = anyio.Event()
        self.out = anyio.Event()
        self.calls = self.closed = 0

    async def __call__(self, state: Any) -> Any:
        self.calls += 1
        self.entered.set()
        try:
            await self.out.wait()
        finally:
            self.closed += 1
        return self.update


class ThreadTurnstile(Turnstile):
    """The same for a sync node, in its thread."""

    def __init__(self, update: Any = None) -> None:
        super().__init__(update)
        self.entered_thread = threading.Event()
        self.out_thread = threading.Event()

    def __call__(self, state: Any) -> Any:
        self.calls += 1
        self.entered_thread.set()
        assert self.out_thread.wait(PATIENCE_S), "nobody let the node out"
        self.closed += 1
        return self.update


@asynccontextmanager
async def patient_group(*savers: GatedSaver) -> AsyncIterator[TaskGroup]:
    """A task group that is given up, with an error, after PATIENCE_S.

    Once the body has ended, well or not, the savers' gates stay open: a run's last saves are
    awaited even when it is cancelled.
    """
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            try:
                yield group
            finally:
                for saver in savers:
                    saver.release(None)


async def settled(rounds: int = 30) -> None:
    """Let every task that can go on go on, in a loop without threads."""
    for _ in range(rounds):
        await checkpoint()
    await anyio.wait_all_tasks_blocked()


class Box:
    """Where a task of a test puts its result or its error."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = anyio.Event()

    async def fill(self, function: Any, *args: Any, **options: Any) -> None:
        """Call an async function and keep what comes of it; cancellation goes on up."""
        try:
            self.value = await function(*args, **options)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self.done.set()
