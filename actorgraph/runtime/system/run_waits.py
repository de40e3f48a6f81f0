"""The runs of this process that wait, in a node, for runs of systems; endless waits are refused.

Every wait for a run goes through `checked_wait`, whichever way a program waits. Runs of other
processes are not known here: a circle of waits that leads through one of them is not found.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Protocol

from actorgraph.errors import ThreadBusyError
from actorgraph.rules.system.scheduling import RunPlace, leads_back
from actorgraph.values.ids import as_text


class Waiter(Protocol):
    """The part of a job that waits may depend on."""

    @property
    def place(self) -> RunPlace:
        """The run, and its thread."""
        ...

    @property
    def ending(self) -> bool:
        """Whether it was cancelled: it ends whatever it waits for."""
        ...


_HOLDERS: dict[tuple[int, str], Waiter] = {}
"""Thread -> the run that has begun on it."""
_WAITS: dict[RunPlace, list[RunPlace]] = {}
"""Run -> the runs that its nodes wait for, without those with a time limit."""


def note_begun(job: Waiter) -> None:
    """Note that a run has its thread."""
    _HOLDERS[job.place.thread] = job


def note_left(job: Waiter) -> None:
    """Note that a run has left its thread."""
    if _HOLDERS.get(job.place.thread) is job:
        del _HOLDERS[job.place.thread]


def _needs(run: RunPlace) -> Iterable[RunPlace]:
    holder = _HOLDERS.get(run.thread)
    if holder is None or holder.ending:
        return ()
    return tuple(_WAITS.get(run, ())) if holder.place == run else (holder.place,)


@contextmanager
def checked_wait(
    job: Waiter, target: RunPlace, *, timed: bool, for_events: bool
) -> Generator[None]:
    """Let a run wait for another one until the block ends.

    Args:
        timed: whether the wait has a time limit: then only waits for its own thread are refused.
        for_events: whether it waits for an event of a run, not for its end.
    Raises:
        ThreadBusyError: the run that is waited for can't end before the one that waits.
    """
    own, begun = job.place, _HOLDERS.get(target.thread)
    has_begun = begun is not None and begun.place == target
    if job.ending or (for_events and has_begun):  # it is cancelled; events may come
        yield
        return
    if target.thread == own.thread or (not timed and leads_back(own, target, _needs)):
        raise _endless(own, target)
    if timed:
        yield
        return
    waits = _WAITS.setdefault(own, [])
    waits.append(target)
    try:
        yield
    finally:
        waits.remove(target)
        if not waits:
            _WAITS.pop(own, None)


def _endless(own: RunPlace, target: RunPlace) -> ThreadBusyError:
    run, thread = as_text(own.run), repr(target.thread_id)
    if target == own:
        what = f"run {run} of thread {thread} waits, in a node, for its own end"
    elif target.thread == own.thread:
        what = (
            f"run {run} waits, in a node, for run {as_text(target.run)} of its own thread "
            f"{thread}, which begins when it has ended"
        )
    else:
        what = (
            f"run {run} of thread {own.thread_id!r} waits, in a node, for run "
            f"{as_text(target.run)} of thread {thread}, which can't end before it: that one "
            "waits for it too"
        )
    return ThreadBusyError(
        what,
        do="start that run without waiting for it, or on another thread; to wait beside the run, "
        "use ActorSystem.spawn()",
        thread_id=target.thread_id,
        run_id=run,
    )
