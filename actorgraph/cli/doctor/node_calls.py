"""The calls and the returned keys of a node's functions, read from their source; nothing is called.

A name in the source is resolved to the object that it means when the function runs: through the
function's closure, its module and Python's own names, and imports inside the function. A name
whose object isn't known is passed over, so that no finding rests on a guess. Bodies of functions
and lambdas inside a node are left out, since a node may hand them to worker threads.
"""

import ast
import builtins
import functools
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from actorgraph.cli.doctor.facts import CallFact, KeyFact
from actorgraph.cli.doctor.function_source import FunctionNode, syntax_of

DEPTH_MAX = 3
"""Functions of the program between a node and a call that are looked into."""
FUNCTIONS_MAX = 200
"""Functions that are read for one node."""

_MISSING = object()
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class _Instance:
    """An object that the source constructs, or a global one: of its class alone."""

    kind: type


def functions_in(action: object) -> list[FunctionType]:
    """Return the functions of a node: of a method, a partial, a wrapper, a Runnable."""
    while isinstance(action, functools.partial):
        action = cast("Any", action).func
    if isinstance(action, MethodType):
        owner = cast("Any", action.__self__)
        made_of = [vars(owner).get(name) for name in ("func", "afunc")] if _has_dict(owner) else []
        inner = [f for each in made_of if each is not None for f in functions_in(each)]
        return inner or functions_in(action.__func__)
    with suppress(ValueError):
        action = inspect.unwrap(cast("Any", action))
    if isinstance(action, FunctionType):
        return [action]
    method = getattr(type(action), "__call__", None)  # noqa: B004 - not a test
    return [method] if isinstance(method, FunctionType) else []


def _has_dict(thing: object) -> bool:
    return hasattr(type(thing), "__dict__") and hasattr(thing, "__dict__")


def calls_of(function: FunctionType) -> Iterator[CallFact]:
    """Yield the calls of a function whose target is known, and those of the program's functions
    that it calls."""
    yield from _calls(function, (), {function.__code__})


def _calls(
    function: FunctionType, through: tuple[str, ...], seen: set[object]
) -> Iterator[CallFact]:
    tree = syntax_of(function)
    if tree is None:
        return
    names = _Names(function, tree)
    for call in _own_calls(tree):
        target = names.find(call.func)
        fact = _fact_of(target, function.__code__.co_filename, call.lineno)
        if fact is not None:
            yield replace(fact, through=through)
        inner = _program_function(target, function)
        if inner is None or inner.__code__ in seen or len(seen) > FUNCTIONS_MAX:
            continue
        if len(through) < DEPTH_MAX:
            seen.add(inner.__code__)
            yield from _calls(inner, (*through, inner.__name__), seen)


def returned_keys(function: FunctionType) -> Iterator[KeyFact]:
    """Yield the keys of the dicts that a function returns, where they are written out.

    The update of a `Command(update={...})` counts too.
    """
    tree = syntax_of(function)
    if tree is None or isinstance(tree, ast.Lambda):
        return
    names, file = _Names(function, tree), function.__code__.co_filename
    for node in _own_nodes(tree):
        value = node.value if isinstance(node, ast.Return) else None
        if isinstance(value, ast.Call):
            value = _update_of(value, names)
        if isinstance(value, ast.Dict):
            for key in value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield KeyFact(key.value, file, key.lineno)


def _update_of(call: ast.Call, names: "_Names") -> ast.expr | None:
    """Return the `update` of a Command; None of another call, or of a Command to a parent."""
    target = names.find(call.func)
    if getattr(target, "__name__", "") != "Command":
        return None
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return None if "graph" in given else given.get("update")


def _own_nodes(tree: FunctionNode) -> Iterator[ast.AST]:
    """Walk a function's body, without nested functions."""
    body = tree.body if isinstance(tree.body, list) else [tree.body]
    left: list[ast.AST] = [*reversed(body)]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, _NESTED):
            left += reversed([*ast.iter_child_nodes(node)])


def _own_calls(tree: FunctionNode) -> Iterator[ast.Call]:
    return (node for node in _own_nodes(tree) if isinstance(node, ast.Call))


class _Names:
    """Resolves the names of one function.

    Args:
        function: it exists, and its globals and closure are read.
        tree: its source.
    """

    def __init__(self, function: FunctionType, tree: FunctionNode) -> None:
        self._outer = _outer_names(function)
        arguments = [*ast.walk(tree.args)]
        self._own: dict[str, object] = {
            a.arg: _MISSING for a in arguments if isinstance(a, ast.arg)
        }
        for node in _own_nodes(tree):
            self._learn(node)

    def _learn(self, node: ast.AST) -> None:
        """Note what a statement makes of a name; two meanings are none."""
        match node:
            case ast.Import(names=names):
                for each in names:
                    top = each.name.partition(".")[0]
                    module = _loaded(each.name if each.asname else top)
                    self._put(each.asname or top, module)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for each in names:
                    found = _attribute(_loaded(module), each.name)
                    self._put(each.asname or each.name, found)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._put(name, self._made_by(value))
            case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
                self._put(name, self._made_by(value))
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name not in self._own:
                self._own[name] = _MISSING
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._own[name] = _MISSING
            case _:
                pass

    def _put(self, name: str, found: object) -> None:
        known = self._own.get(name, found)
        same = known is found or known == found
        self._own[name] = found if same else _MISSING

    def _made_by(self, value: ast.expr) -> object:
        """The object of an assignment, if it is the construction of a class."""
        found = self.find(value.func) if isinstance(value, ast.Call) else _MISSING
        return _Instance(found) if isinstance(found, type) else _MISSING

    def find(self, expression: ast.expr) -> object:
        """Return the object that an expression means; `_MISSING` if it isn't known."""
        match expression:
            case ast.Name(id=name):
                if name in self._own:
                    return self._own[name]
                return self._outer.get(name, getattr(builtins, name, _MISSING))
            case ast.Attribute(value=value, attr=attr):
                return _attribute(self.find(value), attr)
            case ast.Call():
                return self._made_by(expression)
            case _:
                return _MISSING


def _outer_names(function: FunctionType) -> Mapping[str, object]:
    found: dict[str, object] = dict(function.__globals__)
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=False):
        with suppress(ValueError):  # not bound yet
            found[name] = cell.cell_contents
    return found


def _loaded(name: str) -> object:
    """Return a module, which is imported only if it is the standard library's."""
    if name in sys.modules:
        return sys.modules[name]
    if name.partition(".")[0] in sys.stdlib_module_names:
        with suppress(ImportError):
            return importlib.import_module(name)
    return _MISSING


def _attribute(found: object, name: str) -> object:
    """Return an attribute without running code of the program's."""
    if found is _MISSING:
        return _MISSING
    if isinstance(found, ModuleType):
        return vars(found).get(name, _MISSING)
    kind = found.kind if isinstance(found, _Instance) else type(found)
    if isinstance(found, type):
        kind = found
    value = inspect.getattr_static(kind, name, _MISSING)
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _fact_of(target: object, file: str, line: int) -> CallFact | None:
    """Describe a called object; None if it has no name of its own."""
    if not isinstance(target, type | FunctionType | BuiltinFunctionType) and not inspect.isroutine(
        target
    ):
        return None
    module: object = getattr(target, "__module__", None)
    name: str = getattr(target, "__qualname__", "") or getattr(target, "__name__", "")
    if module is None:  # a method of a class in C
        owner = getattr(target, "__objclass__", None)
        module = getattr(owner, "__module__", "builtins")
    if not isinstance(module, str) or not name:
        return None
    kind = "class" if isinstance(target, type) else "method" if "." in name else "function"
    awaits = inspect.iscoroutinefunction(target)
    package = module.partition(".")[0].lstrip("_")
    return CallFact(package, name, kind, awaits, file, line)


def _program_function(target: object, caller: FunctionType) -> FunctionType | None:
    """Return a called function that is the program's own, and not a library's."""
    with suppress(ValueError):
        target = inspect.unwrap(cast("Any", target))
    if not isinstance(target, FunctionType) or inspect.isgeneratorfunction(target):
        return None
    file = target.__code__.co_filename
    if file == caller.__code__.co_filename:
        return target
    top = (target.__module__ or "").partition(".")[0]
    if top in sys.stdlib_module_names or top == "actorgraph" or "-packages" in file:
        return None
    return target
