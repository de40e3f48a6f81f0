"""The weight of a request: how many requests its body counts as. Pure.

A body that asks for much at once counts against its client's rate as if it were sent one by one,
and `Limits.items` bounds it.
"""

from typing import Any, cast

from actorgraph.web.http import bodies


def weight_of(body: Any) -> int:
    """Return how many items a body asks for; at least 1.

    Items are the runs of a batch, the updates of supersteps, the targets of a `goto`, and threads
    and runs that are named by their ids.
    """
    if isinstance(body, list):
        return sum(map(weight_of, cast("list[Any]", body))) or 1
    if isinstance(body, bodies.ThreadBody):
        steps = body.supersteps or ()
        return sum(_of_goto(one.command) for step in steps for one in step.updates) or 1
    if isinstance(body, bodies.ThreadPrune):
        return _length(body.thread_ids)
    named, command = getattr(body, "run_ids", None), getattr(body, "command", None)
    if named is None and command is None and not hasattr(body, "goto"):
        return 1
    return max(_of_goto(command), _of_goto(body), _length(named))


def _of_goto(said: Any) -> int:
    return _length(getattr(said, "goto", None))


def _length(found: Any) -> int:
    return len(cast("list[Any]", found)) if isinstance(found, list) and found else 1
