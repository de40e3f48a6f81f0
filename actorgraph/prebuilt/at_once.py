"""ToolNode: runs the tools that a model's last message calls, concurrently."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import anyio

from actorgraph.errors import GraphInterrupt
from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.runtime.interop import translated

Work = Callable[[], Coroutine[Any, Any, Any]]


async def run_concurrently(works: Sequence[Work], calls: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Run tool calls concurrently, each as a part of the task; returns results in call order.

    An interrupt in one call doesn't cancel the others: they would have to run again on resume.

    Args:
        works: one per call.
        calls: the calls; the `id` keeps the interrupts of each apart from those of the others.
    Raises:
        GraphInterrupt: some calls were interrupted, and the others have finished.
        BaseException: the first failure, unwrapped; it cancels the others.
    """
    whole = CURRENT.get(None)
    parts: list[TaskScope] = [] if whole is None else whole.split([str(c["id"]) for c in calls])
    results: list[Any] = [None] * len(works)
    questions: dict[int, Any] = {}

    async def one(index: int) -> None:
        if parts:
            CURRENT.set(parts[index])
        try:
            results[index] = await works[index]()
        except (GraphInterrupt, Exception) as error:
            asked = translated(error)
            if not isinstance(asked, GraphInterrupt):
                raise
            questions[index] = asked

    try:
        async with anyio.create_task_group() as group:
            for index in range(len(works)):
                group.start_soon(one, index)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    if whole is not None:
        whole.join(parts)
    if questions:
        raise GraphInterrupt(
            [i for _, asked in sorted(questions.items()) for i in asked.interrupts]
        )
    return results
