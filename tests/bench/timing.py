"""Time one program: after a garbage collection, with the collector on at its thresholds."""

import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def measured(program: Callable[[], Awaitable[Any]]) -> tuple[Any, dict[str, Any]]:
    """Run an async program; its result, and the seconds and CPU seconds that it took."""
    gc.collect()
    cpu = time.process_time()
    started = time.perf_counter()
    result = await program()
    seconds = time.perf_counter() - started
    return result, {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}


def measured_blocking(program: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """The same for a program without an event loop."""
    gc.collect()
    cpu = time.process_time()
    started = time.perf_counter()
    result = program()
    seconds = time.perf_counter() - started
    return result, {"seconds": seconds, "cpu_seconds": time.process_time() - cpu}
