"""Reasons to stop a run although it has work: drain, step timeout, recursion, breakpoints.

Finished work is stored. A resume continues from there with fresh limits.
"""

from collections.abc import Iterable, Sequence

from actorgraph.errors import (
    DeadlineError,
    DrainTimeoutError,
    ErrorCode,
    GraphDrained,
    GraphRecursionError,
    StepTimeoutError,
)
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import is_newer
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.run import Drained, Failed, RunOutcome, Task

DEADLINE = "deadline"
"""The reason of a run that stops at its deadline."""


def _go_on(state: RunState) -> str:
    if not state.has_saver:
        return "with a checkpointer it could go on from here"
    return "finished work is saved; ainvoke(None, config) goes on"


def stop_before(state: RunState) -> RunOutcome | None:
    """Check drain and limits before a superstep: return the outcome to leave with.

    None means that it may start; it is counted then.
    """
    asked = None if state.stopping is None else state.stopping()
    if asked is not None:
        return Drained(_drained_error(state, asked))
    if state.steps_left <= 0:
        return Failed(_too_many_steps(state))
    state.steps_left -= 1
    limit = state.policy.node_visit_limit
    if limit is None:
        return None
    for name in {task.name for task in state.due}:
        state.visits[name] = state.visits.get(name, 0) + 1
        if state.visits[name] > limit:
            return Failed(_too_many_visits(state, name, limit))
    return None


def _drained_error(state: RunState, reason: str) -> GraphDrained:
    if reason != DEADLINE:
        return GraphDrained(f"Graph drained: {reason}", do=_go_on(state), reason=reason)
    due = sorted({task.name for task in state.due})
    return DeadlineError(
        f"the run of graph {state.plan.name!r} reached its deadline_s before node "
        f"{', '.join(map(repr, due))}",
        do=f"pass a longer deadline_s; {_go_on(state)}",
        reason=reason,
    )


def on_drained(state: RunState, identifier: str, error: GraphDrained) -> None:
    """Handle a task whose subgraph was drained: unfinished, not failed; its siblings go on."""
    task = state.running.pop(identifier, None)
    if task is not None:
        state.interrupted[task.id] = ()
        state.drained = error


def drained(state: RunState) -> RunOutcome | None:
    """Return the outcome of a run whose subgraph was drained; None if there are open questions."""
    if state.drained is None or any(state.interrupted.values()):
        return None
    return Drained(state.drained)


def _too_many_steps(state: RunState) -> GraphRecursionError:
    return GraphRecursionError(
        f"Recursion limit of {state.policy.recursion_limit} reached without hitting a stop "
        f"condition; graph {state.plan.name!r} still has {sorted({t.name for t in state.due})}",
        do=f'let some edge lead to END, or raise config["recursion_limit"]; {_go_on(state)}',
        code=ErrorCode.GRAPH_RECURSION_LIMIT,
    )


def _too_many_visits(state: RunState, name: str, limit: int) -> GraphRecursionError:
    return GraphRecursionError(
        f"node {name!r} of graph {state.plan.name!r} has run in {limit} supersteps, its limit, and "
        "is due again",
        do='let some edge lead out of its loop, or raise config["node_visit_limit"]; '
        f"{_go_on(state)}",
        code=ErrorCode.GRAPH_RECURSION_LIMIT,
    )


def check_depth(name: str, depth: int, limit: int) -> None:
    """Refuse a subgraph that is nested too deep.

    Args:
        depth: levels below the root run.
        limit: the highest depth allowed, `config["nesting_limit"]`.
    Raises:
        GraphRecursionError: `depth` is above `limit`.
    """
    if depth > limit:
        raise GraphRecursionError(
            f"graph {name!r} would run {depth} levels below its root run, more than the limit of "
            f"{limit}",
            do='let the recursion end, or raise config["nesting_limit"]',
            code=ErrorCode.GRAPH_RECURSION_LIMIT,
        )


def on_step_timeout(state: RunState, step: int) -> RunOutcome | None:
    """Return the outcome of a superstep that ran out of time; None if it is over already."""
    if state.step != step or state.outcome is not None or not (state.running or state.due):
        return None
    names = sorted({task.name for task in state.running.values()})
    return Failed(
        StepTimeoutError(
            f"superstep {step + 1} of graph {state.plan.name!r} took longer than its step_timeout "
            f"of {state.policy.step_timeout_s} s; {names} were running",
            do="raise graph.step_timeout, or give the slow node a timeout of its own; "
            f"{_go_on(state)}",
        )
    )


def pauses(state: RunState, names: Sequence[str], tasks: Iterable[Task]) -> bool:
    """Whether to pause: a task is of a named node, and a channel changed since the last pause.

    Args:
        names: node names; "*" means every node that is not hidden.
        tasks: those that have just run, or that are due.
    """
    if not names:
        return False
    seen = state.seen.get(INTERRUPT, {})
    if not any(is_newer(version, seen.get(c)) for c, version in state.versions.items()):
        return False
    if "*" in names:
        return any(not state.plan.callable[task.name].hidden for task in tasks)
    return any(task.name in names for task in tasks)


def undrained_error(state: RunState, timeout_s: float) -> DrainTimeoutError:
    """Make the error of a run whose saves were not acknowledged in time."""
    return DrainTimeoutError(
        f"saves {state.durable + 1} to {state.sent} of thread {state.thread_id!r} were not "
        f"acknowledged within {timeout_s} s",
        do="ainvoke(None, config) resumes from the last stored checkpoint",
    )
