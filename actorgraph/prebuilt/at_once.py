"""Several calls of one message, side by side: each a part of the task, with its own questions."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import anyio

from actorgraph.errors import GraphInterrupt
from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.runtime.interop import translated

Work = Callable[[], Coroutine[Any, Any, Any]]


async def all_at_once(works: Sequence[Work], calls: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Their results, in their order.

    A question doesn't stop the others: what they have done by then would be done again.

    Args:
        calls: what each work is about; its `id` tells its questions from the others'.
    Raises:
        GraphInterrupt: some have asked, and the others have finished.
        BaseException: the first failure, as it was raised; it ends the others.
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
