"""The context variables of the task that runs a run of a system."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from actorgraph.loops import current_loop
from actorgraph.runtime.task.calling import SYSTEM_LEASE, SYSTEM_THREADS
from actorgraph.runtime.task.router_threads import RouterThreads
from actorgraph.runtime.task.scope import CURRENT


def enter_context(
    threads: RouterThreads | None, lease: Callable[[], Awaitable[None]] | None
) -> None:
    """Set them in the task that calls this.

    Args:
        threads: of the system's plain functions; None for those of the event loop.
        lease: waits before a task begins if the lease of the run's owner is over; None without a
            lease.
    """
    SYSTEM_THREADS.set(None if threads is None else (current_loop(), threads))
    SYSTEM_LEASE.set(lease)
    if CURRENT.get(None) is not None:  # a node has submitted it: it isn't a subgraph of that
        CURRENT.set(cast("Any", None))
