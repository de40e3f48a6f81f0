"""Tracebacks as a program sees them: from its own call to its own function, little in between."""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)

PASSED_BY = frozenset(
    {"actorgraph", "anyio", "asyncio", "concurrent", "contextlib", "outcome", "trio"}
)
"""Top-level packages whose frames are between a call of a graph and a program's function."""


def from_program(error: E) -> E:
    """Cut the library's frames in front of the program's first function off a traceback.

    Use it where the error of a run is raised to its caller, whose frames are added then. An error
    without a frame of any other package keeps its whole traceback: it may be a fault of ours.
    """
    first = trace = error.__traceback__
    while trace is not None:
        # A function of a text that was executed has no module name.
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in PASSED_BY:
            return error.with_traceback(first)
        trace = trace.tb_next
        if package == "actorgraph":
            first = trace
    return error
