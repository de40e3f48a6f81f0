"""Coroutines that transformers run concurrently with the events of a run."""

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

import anyio

from actorgraph.loops import on_trio
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate

_RUNNING: set["asyncio.Task[None]"] = set()


class Scheduled:
    """One coroutine in a task of its own.

    Attributes:
        error: what it raised, unless `logs`: then its error is logged.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, logs: bool) -> None:
        self._coroutine = coroutine
        self._logs = logs
        self._scope = anyio.CancelScope()
        self._done = Gate()
        self.error: Exception | None = None

    def start(self) -> None:
        """Start it, in a task of the running event loop."""
        if on_trio():
            import trio

            trio.lowlevel.spawn_system_task(self._serve, context=copy_context())
        else:
            task = asyncio.get_running_loop().create_task(self._serve())
            _RUNNING.add(task)
            task.add_done_callback(_RUNNING.discard)

    def cancel(self) -> None:
        """Stop it."""
        self._scope.cancel()

    async def wait(self) -> None:
        """Wait for its end."""
        await self._done.wait()

    async def _serve(self) -> None:
        try:
            with self._scope:
                await self._coroutine
        except Exception as error:  # noqa: BLE001 - the run's end raises it, or it is logged
            if self._logs:
                log_event("error", "transformer.failed", error=repr(error))
            else:
                self.error = error
        finally:
            self._coroutine.close()
            self._done.open()
