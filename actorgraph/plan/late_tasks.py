"""Names of the `@task`s that a program has not defined yet, as far as its code shows.

A task may be defined in the body of a function that runs later, or in a module that a function
imports when it runs. Until then no list has it, though a stored result of it is not lost. The
search reads code and calls nothing: it follows what the graph's functions mention (`mentions`) and
the modules that they import, also those that are not loaded, whose source is read.

Counted are functions that are decorated, or passed to a call, where they are made; and names that
are given as `name=`. It misses what no code says: modules that are chosen at run time, for example.
"""

import sys
from collections.abc import Container, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from dis import Instruction, get_instructions
from importlib.util import resolve_name
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any, Final

from actorgraph.bridging import BRIDGE
from actorgraph.plan.mentions import is_marked, is_of_program, names_in, reached

MAKES: Final = "makes_tasks"
"""Attribute of the decorators that make a task of a function."""

MODULES_MAX: Final = 200
"""Modules that are read because a function would import them."""

_SILENT: Final = frozenset(
    ("CACHE", "PRECALL", "PUSH_NULL", "EXTENDED_ARG", "NOP", "MAKE_FUNCTION", "KW_NAMES")
) | {"SET_FUNCTION_ATTRIBUTE", "NOT_TAKEN"}
"""Instructions between the making of a function and what becomes of it."""
_READS: Final = ("LOAD_FAST", "LOAD_DEREF", "LOAD_NAME", "LOAD_GLOBAL")
_FORMATS: Final = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING")
_PIECE_LENGTH_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class LateTasks(Container[str]):
    """Names that a program may give to tasks while it runs.

    Attributes:
        names: whole ones.
        pieces: beginnings and ends of names that are put together.
    """

    names: AbstractSet[str] = frozenset()
    pieces: tuple[str, ...] = ()

    def __contains__(self, name: object) -> bool:
        """Whether a task may get the name."""
        if name in self.names:
            return True
        return isinstance(name, str) and name.startswith(self.pieces) | name.endswith(self.pieces)


def late_tasks(functions: Iterable[object]) -> LateTasks:
    """Find the names that functions, and what they mention, may give to tasks."""
    search = _CodeSearch()
    search.waiting.extend(functions)
    while search.waiting:
        search.follow(search.waiting.pop())
    if not search.makes:
        return LateTasks()
    return LateTasks(frozenset(search.names), tuple(sorted(search.pieces)))


def tasks_in(functions: Iterable[object]) -> frozenset[str]:
    """The names of the tasks that functions, and what they mention, may call."""
    found = (one for function in functions for one in reached(function) if is_marked(one))
    names = (getattr(one, "name", None) for one in found if not isinstance(one, FunctionType))
    return frozenset(name for name in names if isinstance(name, str))


@dataclass(slots=True)
class _CodeSearch:
    """The state of one search.

    Attributes:
        waiting: objects to follow.
        homes: packages of the program.
        seen: ids of the objects that were followed, which are held by what mentions them.
        modules: names of the modules that were looked at.
        makes: whether any code mentions a decorator of tasks.
    """

    waiting: list[object] = field(default_factory=list[object])
    homes: set[str] = field(default_factory=set[str])
    seen: dict[int, object] = field(default_factory=dict[int, object])
    modules: set[str] = field(default_factory=set[str])
    names: set[str] = field(default_factory=set[str])
    pieces: set[str] = field(default_factory=set[str])
    makes: bool = False

    def follow(self, start: object) -> None:
        """Look at an object and all that it mentions."""
        for found in reached(start, self.homes):
            if id(found) in self.seen:
                continue
            self.seen[id(found)] = found
            if not isinstance(found, FunctionType):
                continue
            self.makes = self.makes or MAKES in vars(found)
            if found is start or is_of_program(found, self.homes):
                globals_ = found.__globals__
                self.read(found.__code__, globals_.get("__package__") or "", globals_)

    def read(self, code: CodeType, package: str, globals_: dict[str, Any]) -> None:
        """Look at the code of a function or a module, and of the functions in it."""
        steps = [step for step in get_instructions(code) if step.opname not in _SILENT]
        self.makes = self.makes or "task" in code.co_names
        self.names.update(_given_away(steps))
        if any(isinstance(one, tuple) and "name" in one for one in code.co_consts):
            self._note_texts(code, steps, globals_)
        for module in _imported(steps, package):
            self._import(module, names_in(code))
        for one in code.co_consts:
            if isinstance(one, CodeType):
                self.read(one, package, globals_)

    def _note_texts(
        self, code: CodeType, steps: list[Instruction], globals_: dict[str, Any]
    ) -> None:
        """Note the texts of code that passes a `name=`."""
        values = (*code.co_consts, *(globals_.get(name) for name in code.co_names))
        texts = {one for one in values if isinstance(one, str)}
        self.names.update(texts)
        if any(step.opname in _FORMATS for step in steps):
            self.pieces.update(one for one in texts if len(one) >= _PIECE_LENGTH_MIN)

    def _import(self, name: str, mentioned: Iterable[str]) -> None:
        """Look at a module that code imports: at what it mentions of a loaded one."""
        loaded = sys.modules.get(name)
        if loaded is not None:
            known = vars(loaded)
            self.waiting += [known[one] for one in {*mentioned} if one in known]
        elif name not in self.modules and len(self.modules) < MODULES_MAX:
            self.modules.add(name)
            code = _code_of(name, self.homes)
            if code is not None:
                self.read(code, name, {})
                self.read(code, name.rpartition(".")[0], {})


def _given_away(steps: list[Instruction]) -> Iterator[str]:
    """The names of functions that are passed to something else: a decorator, a call."""
    for step, after in pairwise(steps):
        if isinstance(step.argval, CodeType):
            if not after.opname.startswith("STORE_"):
                yield step.argval.co_name
        elif after.opname == "CALL" and after.arg and step.opname.startswith(_READS):
            last = step.argval[-1] if isinstance(step.argval, tuple) else step.argval
            yield str(last)


def _imported(steps: list[Instruction], package: str) -> Iterator[str]:
    """The modules that code imports; of `from a import b` both `a` and `a.b`."""
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        level, names = (one.argval for one in steps[place - 2 : place])
        name = str(step.argval)
        with suppress(ImportError, TypeError):
            name = resolve_name("." * level + name, package) if level else name
            parts = name.split(".")
            yield from (".".join(parts[: end + 1]) for end in range(len(parts)))
            yield from (f"{name}.{one}" for one in names or ())


def _code_of(name: str, homes: AbstractSet[str]) -> CodeType | None:
    """Compile a module of the program that is not loaded; None for another one."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == "actorgraph" or top in BRIDGE.unread:
        return None
    spec, path = None, None
    with suppress(Exception):  # a finder or a loader of another library, or code of another version
        parts = name.split(".")
        for end in range(len(parts)):
            full = ".".join(parts[: end + 1])
            if full in sys.modules:
                path = getattr(sys.modules[full], "__path__", None)
                continue
            spec = next(filter(None, (f.find_spec(full, path) for f in sys.meta_path)), None)
            path = spec and spec.submodule_search_locations
        if spec is None or ("-packages" in (spec.origin or "") and top not in homes):
            return None
        source = getattr(spec.loader, "get_source", lambda _: None)(name)
        return compile(source, spec.origin or name, "exec", dont_inherit=True) if source else None
    return None
