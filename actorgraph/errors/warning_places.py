"""Warnings, and the line of a program that each names.

`warn` is the only caller of Python's `warnings`. A warning about a file of this library would not
lead a reader to the cause, and a program's filter by module would never match it.
"""

import inspect
import sys
import sysconfig
import threading
import warnings
from contextlib import suppress
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any, NamedTuple

from actorgraph.bridging import BRIDGE
from actorgraph.errors.tracebacks import PASSED_BY

_LIBRARY = "actorgraph"
_PASSED_BY = PASSED_BY | {"sniffio", "uvloop"}
"""Packages besides Python's own that may be between the program and this library."""
_LOOPS = frozenset({"asyncio.base_events", "asyncio.events", "asyncio.runners", "trio._core._run"})
"""Modules of event loops: a caller of theirs has started the loop, not what the loop now does."""
_STDLIB = sysconfig.get_path("stdlib")
_LAYERS_MAX = 20
"""Wrappers around a function that are taken off."""

BLOCKED: ContextVar[int | None] = ContextVar("BLOCKED", default=None)
"""Thread of the blocking call that waits for this code, which runs in the library's own thread."""


class _Place(NamedTuple):
    file: str
    line: int
    names: dict[str, Any]
    """The globals of its module."""


def warn(text: str, category: type[Warning], *, about: Any = None) -> None:
    """Warn at the program's line that has called this library.

    Args:
        text: what happened and what to do. It names the graph or the node: a warning of an event
            loop or of a worker thread may have no line of the program that says which one it was.
        about: the program's function or class that the text is about. Its first line is named where
            no call of the program led here: in a task of an event loop, in another thread.
    Raises:
        Warning: the program's filters make it an error.
    """
    here = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    place = _place(here, about)
    if place is None:
        warnings.warn(text, category, stacklevel=2)
        return
    warnings.warn_explicit(
        text,
        category,
        place.file,
        place.line,
        module=place.names.get("__name__") or "<unknown>",
        registry=place.names.setdefault("__warningregistry__", {}),
        source=None,
    )


def _place(frame: FrameType, about: Any) -> _Place | None:
    found, is_call = _program(frame)
    thread = BLOCKED.get()
    if not is_call and thread is not None and thread != threading.get_ident():
        threads = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        blocked = threads.get(thread)
        caller, is_call = _program(blocked)
        # The thread may have gone on meanwhile: then it isn't in a call of this library.
        found = caller if is_call else found
    if not is_call and (declared := _declared_at(about)) is not None:
        return declared
    if found is None:
        return None
    return _Place(found.f_code.co_filename, found.f_lineno, found.f_globals)


def _program(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """Find the program's innermost frame, and whether it is in a call of this library.

    It is not if it only runs the event loop in which the library has a task.
    """
    in_call = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package == _LIBRARY:
            in_call = True  # it may have started the loop itself, for a blocking call
        elif module in _LOOPS:
            in_call = False
        elif not _is_passed_by(package, frame.f_code):
            return frame, in_call
        frame = frame.f_back
    return None, False


def _is_passed_by(package: str, code: CodeType) -> bool:
    if package in _PASSED_BY or package in BRIDGE.between:
        return True
    # A program may have a module of its own that is called `test` or `code`.
    is_python = code.co_filename.startswith((_STDLIB, "<frozen "))
    return is_python and package in sys.stdlib_module_names


def _declared_at(thing: Any) -> _Place | None:
    """Return where a function or class of the program is; None for anything else."""
    for _ in range(_LAYERS_MAX):
        if isinstance(thing, type):
            return _class_at(thing)
        code = getattr(thing, "__code__", None)
        inner = getattr(thing, "__wrapped__", None)  # of a decorator, in front of its own code
        if inner is None and code is None:
            for name in ("__func__", "func", "afunc", "bound"):
                inner = inner or getattr(thing, name, None)
            if inner is None and thing is not None:
                inner = vars(type(thing)).get("__call__")
        if inner is None:
            if not isinstance(code, CodeType):
                return None
            names = getattr(thing, "__globals__", {})
            is_ours = str(names.get("__name__", "")).partition(".")[0] == _LIBRARY
            return None if is_ours else _Place(code.co_filename, code.co_firstlineno, names)
        thing = inner
    return None


def _class_at(kind: type) -> _Place | None:
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__.partition(".")[0] in {_LIBRARY, "builtins"}:
        return None
    file, line = None, 1  # of a class that a call has made
    with suppress(OSError, TypeError):  # of a C extension, of a text that was executed
        file = inspect.getsourcefile(kind)
        line = inspect.getsourcelines(kind)[1]
    return None if file is None else _Place(file, line, vars(module))
