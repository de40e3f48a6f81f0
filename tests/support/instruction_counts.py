"""Count bytecode instructions: a measure of work that no other program's load changes."""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(work: Callable[[], object]) -> int:
    """The bytecode instructions of this thread while it does some work."""
    return _traced(work) if sys.version_info < (3, 12) else _monitored(work)


def _traced(work: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def _monitored(work: Callable[[], object]) -> int:
    """Count by `sys.monitoring`: from 3.12 on a trace function misses its first instructions."""
    watch: Any = getattr(sys, "monitoring")  # noqa: B009 - typed for 3.11
    tool, event, here = watch.PROFILER_ID, watch.events.INSTRUCTION, threading.get_ident()
    count = 0

    def counted(*_: Any) -> None:
        nonlocal count
        count += threading.get_ident() == here

    watch.use_tool_id(tool, "instructions")
    watch.register_callback(tool, event, counted)
    watch.set_events(tool, event)
    try:
        work()
    finally:
        watch.set_events(tool, 0)
        watch.register_callback(tool, event, None)
        watch.free_tool_id(tool)
    return count
