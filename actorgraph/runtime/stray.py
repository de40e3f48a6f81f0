"""Stray cancellations: on asyncio a node may cancel the task in which it runs, its actor's."""

import asyncio
import math

import anyio

from actorgraph.loops import on_trio


def was_requested() -> bool:
    """Whether a caught cancellation ends the run; clears a stray one, which does not.

    On asyncio a node may cancel its own task, which is its actor's. That raises one exception, at
    the task's next `await`, maybe after the node. A request to end the run cancels a scope
    instead, which stays cancelled.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = None if on_trio() else asyncio.current_task()
    while task is not None and task.cancelling():  # else task groups of the next node count it
        task.uncancel()
    return False
