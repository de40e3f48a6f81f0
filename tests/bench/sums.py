"""The share of checksums of stored rows in a step's CPU: their calls, recorded and made again."""

import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

ROUNDS = 5
_NAMES = ("blob_sum", "checkpoint_sum", "checked", "head_sum", "run_sum", "writes_sum")
Call = tuple[Callable[..., Any], tuple[Any, ...]]


async def share_of(workload: Callable[[], Awaitable[dict]]) -> dict:
    """Run a workload on SQLite twice: as it is, and with its checksums recorded.

    Returns: the figures of the first run; `share`: the CPU of the recorded calls, the least of
        some rounds, over the CPU of that run.
    """
    from actorgraph.savers.sqlite import batch, retention

    figures = await workload()
    calls: list[Call] = []
    places = [(m, name) for m in (batch, retention) for name in _NAMES if hasattr(m, name)]
    real = {place: getattr(*place) for place in places}
    try:
        for place in places:
            setattr(*place, _recording(real[place], calls))
        await workload()
    finally:
        for place, function in real.items():
            setattr(*place, function)
    assert len(calls) > figures["units"], len(calls)
    return {**figures, "share": min(_cpu(calls) for _ in range(ROUNDS)) / figures["cpu_seconds"]}


def _recording(function: Callable[..., Any], calls: list[Call]) -> Callable[..., Any]:
    def record(*arguments: Any) -> Any:
        calls.append((function, arguments))
        return function(*arguments)

    return record


def _cpu(calls: list[Call]) -> float:
    gc.collect()
    started = time.process_time()
    for function, arguments in calls:
        function(*arguments)
    return time.process_time() - started
