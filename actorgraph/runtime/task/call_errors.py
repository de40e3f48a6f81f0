"""Errors of nodes as the run takes them: those of other libraries' code are translated."""

import sys
from traceback import walk_tb

from actorgraph.bridging import BRIDGE
from actorgraph.errors import OtherLoopError
from actorgraph.errors.tracebacks import PASSED_BY
from actorgraph.loops import on_trio


def translated(error: BaseException, name: str = "") -> BaseException:
    """A node's error, with other libraries' interrupts and commands, also in groups, made ours.

    On trio, the error of code that needs asyncio becomes one that names the code's library.

    Args:
        name: of the node, for errors; default the running task's.
    """
    if isinstance(error, (TypeError, RuntimeError)) and on_trio() and _asks_for_asyncio(error):
        return _needs_asyncio(error, name)
    # The bridge's module must not be imported now: the error may be that of a process without
    # free file descriptors. A run of a program with such a library has imported it at its start.
    return BRIDGE.translate_error(error, name) if BRIDGE.calls_module in sys.modules else error


def is_foreign_control_flow(error: BaseException | None) -> bool:
    """Whether it is another library's control flow, which error handling must let through."""
    return BRIDGE.calls_module in sys.modules and BRIDGE.is_control_flow(error)


_NO_ASYNCIO = (
    "trio.run received unrecognized yield message",  # trio's, about an awaited object
    "no running event loop",
    "no current event loop",
)


def _asks_for_asyncio(error: Exception) -> bool:
    return any(text in str(error) for text in _NO_ASYNCIO)


def _needs_asyncio(error: Exception, name: str) -> OtherLoopError:
    """Return the error of a node on trio that has called code that needs asyncio."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    modules = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    known = [module for module in modules if module and module not in PASSED_BY]
    likely = BRIDGE.calls_module
    unknown = f"{likely} or another library" if likely in sys.modules else "a library"
    library = known[-1] if known else unknown
    ours = OtherLoopError(
        f"node {name!r} runs on trio and awaits code of {library} that needs asyncio",
        do="make the node a plain function that calls the library's sync method, such as "
        "model.invoke() or model.stream(): it is called in a thread, and its messages are "
        "streamed; or run the graph on asyncio",
    )
    ours.__cause__ = error
    return ours
