"""Threads that wait: a plain function that waits in its worker thread lets another one have one.

The worker threads of plain functions are limited. Functions that have all of them, and wait for
runs whose functions need one, would wait for ever. So while a task's function waits, the limit is
higher by one: once for each task, however many runs it waits for.
"""

from collections.abc import Callable, Iterable
from functools import partial

import anyio

from actorgraph.runtime.worker_threads import BUSY

_WAITS: dict[tuple[int, int], int] = {}
"""Limiter and task that waits, by their ids -> the runs that it waits for."""


def is_busy(task: object) -> bool:
    """Whether a worker thread runs a function of a task."""
    return any(busy is task for busy in list(BUSY.values()))


def lend(limiter: anyio.CapacityLimiter, tasks: Iterable[object]) -> None:
    """Allow a thread more for each of the tasks; called in the limiter's event loop."""
    for task in tasks:
        key = id(limiter), id(task)
        waits = _WAITS[key] = _WAITS.get(key, 0) + 1
        if waits == 1:
            limiter.total_tokens += 1


def take_back(limiter: anyio.CapacityLimiter, tasks: Iterable[object]) -> None:
    """End a wait that `lend` has begun, in the same event loop."""
    for task in tasks:
        key = id(limiter), id(task)
        _WAITS[key] -= 1
        if not _WAITS[key]:
            del _WAITS[key]
            limiter.total_tokens -= 1


def loan_of(task: object, limiter: anyio.CapacityLimiter) -> Callable[[], None] | None:
    """Lend the thread of a task to a graph that its function runs, and waits for.

    Returns: ends the loan, in the same event loop; None if no thread runs the task's function.
    """
    if task is None or not is_busy(task):
        return None
    lend(limiter, (task,))
    return partial(take_back, limiter, (task,))
