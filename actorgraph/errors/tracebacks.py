"""Tracebacks as a program sees them: from its own call to its own function, little in between."""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)

PASSED_BY = frozenset(
    {"", "actorgraph", "anyio", "asyncio", "concurrent", "contextlib", "outcome", "trio"}
)
"""Top-level packages whose frames are between a call of a graph and a program's function."""


def from_program(error: E) -> E:
    """Cut the frames in front of the first function of the program off an error's traceback.

    Use it where the error of a run is raised to its caller, whose frames are added then. The
    error of a run that failed in the library's own code keeps its whole traceback.
    """
    trace = error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in PASSED_BY:
            return error.with_traceback(trace)
        trace = trace.tb_next
    return error
