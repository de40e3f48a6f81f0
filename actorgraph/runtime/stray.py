"""Stray cancellations: on asyncio a node may cancel the task that it runs in, its actor's.

Nobody has asked the run to end then. What asks for that cancels a scope, which stays cancelled; a
stray cancellation is one exception, raised at the task's next `await`, maybe after the node.
"""

import asyncio
import math

import anyio

from actorgraph.loops import on_trio


def is_stopped() -> bool:
    """Whether a cancellation that has just been caught was asked for; a stray one ends here."""
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = None if on_trio() else asyncio.current_task()
    while task is not None and task.cancelling():  # a task group of the next node counts them
        task.uncancel()
    return False
