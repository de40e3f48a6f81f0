"""Read a router's code, once, and say whether it is certain to be quick.

A quick router is called on the event loop; any other plain router costs a hop to a worker thread.
The proof follows each value of the router's text (`function_source`): globals, closures, defaults
and `self` are the objects that they are when the graph is compiled, everything else is data of
the state. It accepts reading, comparing and formatting data, loops over data, calls of quick
builtins (`quick_calls`), and calls of functions that pass the same proof. It refuses the rest:
objects, unknown calls, `while`, `with`, imports, recursion. Nothing is called and nothing is timed.
"""

import ast
import dataclasses
import enum
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from actorgraph.plan.annotations import class_annotations, function_annotations
from actorgraph.plan.function_source import syntax_of
from actorgraph.plan.quick_bodies import Body
from actorgraph.plan.quick_calls import (
    Arguments,
    call_builtin,
    call_elsewhere,
    construct,
    is_quick_elsewhere,
    unwrapped_partial,
)
from actorgraph.plan.quick_scopes import Scope
from actorgraph.plan.quick_values import (
    ANY,
    NOTHING,
    Atom,
    Container,
    Data,
    InnerFunction,
    Known,
    Method,
    NotQuickError,
    Outside,
    Value,
    boxed,
    class_home,
    class_of,
    data,
    describe,
    has_plain_metaclass,
    is_data_class,
    is_function,
    lift,
    static_attribute,
)

_CALLS_DEEP_MAX = 12
_NODES_MAX = 5_000
"""Parts of the text that one proof may visit, helpers included."""

_WAITS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether a router is certain to be quick, and why."""

    quick: bool
    why: str


def judge(router: Callable[..., Any], schema: Any, injected: tuple[str, ...] = ()) -> Verdict:
    """Judge a plain router.

    Args:
        schema: the class of the state that it gets, Any if unknown.
        injected: its parameters that the runtime fills in, with objects that aren't data.
    """
    proof = _Proof()
    given = {name: frozenset([Known(Outside(name))]) for name in injected}
    try:
        proof.apply(lift(router), Arguments((data(schema),), given))
    except NotQuickError as refused:
        return Verdict(quick=False, why=_shortened(str(refused)))
    except Exception as error:  # noqa: BLE001 - a program's objects may raise when looked at
        return Verdict(quick=False, why=f"reading its code raised {type(error).__name__}")
    helpers = ", ".join(f"{name}()" for name in list(proof.helpers)[1:4])
    return Verdict(
        quick=True, why=f"only reads the state, also in {helpers}" if helpers else _ONLY_READS
    )


def _shortened(reason: str) -> str:
    """Cut a chain of calls after the second: the rest is usually inside of a library."""
    first, *rest = reason.split(", which ")
    cause = _RECURSIVE if rest and rest[-1] == _RECURSIVE else "".join(rest[:1])
    return f"{first}, which {cause}" if cause else first


_RECURSIVE = "is recursive"
_ONLY_READS = "only reads the state"


class _Proof:
    """The proof of one router: the functions that it has followed and what they return."""

    def __init__(self) -> None:
        self.helpers: dict[str, None] = {}
        self._visited = 0
        self._running: list[ast.AST] = []

    def visit(self) -> None:
        """Count one part of the text."""
        self._visited += 1
        if self._visited > _NODES_MAX:
            raise NotQuickError("has more code than a proof reads")

    def apply(self, callee: Value, arguments: Arguments) -> Value:
        """Return what a call gives."""
        return NOTHING.union(*(self._apply(atom, arguments) for atom in callee))

    def _apply(self, atom: Atom, arguments: Arguments) -> Value:
        match atom:
            case InnerFunction(node, scope, defaults):
                return self._run(node, scope, defaults, arguments)
            case Method(function, owner):
                positional = (owner, *arguments.positional)
                return self._function(
                    function, dataclasses.replace(arguments, positional=positional)
                )
            case Known(known):
                return self._known(known, arguments)
            case Data(kind) if kind is type(None):
                return NOTHING  # raises a TypeError
            case _:
                raise NotQuickError("calls a value of the state")

    def _known(self, callee: Any, arguments: Arguments) -> Value:
        kind = type(callee)
        if is_quick_elsewhere(callee):
            return call_elsewhere(callee, arguments)
        if kind is types.FunctionType:
            return self._function(callee, arguments)
        if is_function(callee) or any(callee is known for known in _BUILTIN_TYPES):
            found = call_builtin(callee, arguments, self.apply)
            if found is not None:
                return found
        if kind is types.MethodType and isinstance(callee.__func__, types.FunctionType):
            return self._apply(Method(callee.__func__, lift(callee.__self__)), arguments)
        if kind is functools.partial:
            return self._known(callee.func, unwrapped_partial(callee, arguments, lift))
        if type in kind.__mro__ and has_plain_metaclass(callee):
            return construct(callee, arguments, self._function)
        call = inspect.getattr_static(kind, "__call__", None)
        if type(call) is types.FunctionType and type not in kind.__mro__:
            return self._apply(Method(call, frozenset([Known(callee)])), arguments)
        raise NotQuickError(f"calls {_name_of(callee)}")

    def _function(self, function: Any, arguments: Arguments) -> Value:
        code = function.__code__
        home = getattr(function, "__module__", None) or ""
        if home.split(".")[0] in sys.stdlib_module_names:
            raise NotQuickError(f"calls {_name_of(function)}")
        if code.co_flags & _WAITS:
            raise NotQuickError(f"calls {_name_of(function)}, which is async or a generator")
        node = syntax_of(function)
        if node is None or isinstance(node, ast.AsyncFunctionDef):
            where = "" if not self._running else f"calls {_name_of(function)}: "
            raise NotQuickError(f"{where}its source can't be read")
        self.helpers.setdefault(code.co_name)
        scope = Scope(function)
        try:
            return self._run(node, scope, _defaults(function, node), arguments, function)
        except NotQuickError as refused:
            if self._running:
                raise NotQuickError(f"calls {_name_of(function)}, which {refused}") from None
            raise

    def _run(
        self,
        node: ast.FunctionDef | ast.Lambda,
        outer: Scope,
        defaults: typing.Mapping[str, Value],
        arguments: Arguments,
        function: types.FunctionType | None = None,
    ) -> Value:
        if node in self._running:
            raise NotQuickError(_RECURSIVE)
        if len(self._running) >= _CALLS_DEEP_MAX:
            raise NotQuickError("calls functions too deeply")
        hints = function_annotations(function) if function is not None else {}
        bound = _bind(node, defaults, arguments, hints)
        self._running.append(node)
        try:
            return Body(self, Scope(outer=outer, node=node, names=bound)).run(node)
        finally:
            self._running.pop()

    def attribute(self, atom: Atom, name: str) -> Value:
        """Return what reading an attribute gives."""
        if name.startswith("__") and name not in ("__class__", "__name__", "__qualname__"):
            raise NotQuickError(f"reads .{name}")
        match atom:
            case Data(kind):
                return self._data_attribute(kind, name)
            case Known(known) if type(known) is types.ModuleType:
                if name not in vars(known):
                    raise NotQuickError(f"reads .{name} of the module {known.__name__}")
                return lift(vars(known)[name])
            case Known(known) if is_function(known):
                if name not in ("__name__", "__qualname__"):
                    raise NotQuickError(f"reads .{name} of a function")
                return frozenset([Data(str)])
            case Known(known) if type in type(known).__mro__:
                return self._class_attribute(known, name)
            case Known(known):
                return self._own_attribute(atom, static_attribute(known, name), name)
            case Container():
                return ANY
            case _:
                raise NotQuickError(f"reads .{name} of a function")

    def _data_attribute(self, kind: Any, name: str) -> Value:
        cls = class_of(kind)
        if cls is type(None):
            return NOTHING  # raises an AttributeError
        if name.startswith("_") and not name.startswith("__"):
            raise NotQuickError(f"reads the private .{name} of a value of the state")
        if cls is None or not is_data_class(cls):
            if cls is not None:
                raise NotQuickError(f"reads .{name} of an object of class {class_home(cls)[1]}")
            return ANY
        if name.startswith("__"):
            return ANY
        hint = class_annotations(cls).get(name)
        found = inspect.getattr_static(cls, name, None)
        owner = Data(kind)
        if type(found) in (property, types.FunctionType, staticmethod, classmethod):
            return self._own_attribute(owner, found, name)
        # Slots and the like hold values; any other descriptor computes them.
        computes = hasattr(type(found), "__get__") and not inspect.isbuiltin(found)
        if computes and type(found) not in _HOLD_VALUES:
            raise NotQuickError(f"reads .{name}, which {class_home(type(found))[1]} computes")
        return ANY if hint is None else data(hint)

    def _class_attribute(self, cls: type, name: str) -> Value:
        if not has_plain_metaclass(cls):
            raise NotQuickError(f"reads .{name} of the class {class_home(cls)[1]}")
        if name in ("__name__", "__qualname__"):
            return frozenset([Data(str)])
        if isinstance(cls, enum.EnumType) and name in cls.__members__:
            return frozenset([Data(cls)])
        found = static_attribute(cls, name)
        if type(found) is property:
            raise NotQuickError(f"reads the property .{name} of a class")
        if type(found) is types.ClassMethodDescriptorType:
            return frozenset([Known(getattr(cls, name))])
        return self._own_attribute(Known(cls), found, name)

    def _own_attribute(self, owner: Atom, found: Any, name: str) -> Value:
        """Return the attribute that was found in an object or its class."""
        kind = type(found)
        if kind is property:
            if type(found.fget) is not types.FunctionType:
                raise NotQuickError(f"reads the property .{name}")
            return self._function(found.fget, Arguments((frozenset([owner]),)))
        if kind is staticmethod:
            return lift(found.__func__)
        if kind is classmethod:
            cls = class_of(owner.kind) if isinstance(owner, Data) else getattr(owner, "value", None)
            cls = cls if isinstance(cls, type) else type(cls)
            return frozenset([Method(found.__func__, frozenset([Known(cls)]))])
        is_class = isinstance(owner, Known) and type in type(owner.value).__mro__
        if kind is types.FunctionType:
            if is_class:
                return frozenset([Known(found)])
            return frozenset([Method(found, frozenset([owner]))])
        if kind is types.MemberDescriptorType and isinstance(owner, Known):
            return lift(found.__get__(owner.value))
        if (
            kind is not types.MethodDescriptorType
            and hasattr(kind, "__get__")
            and (not is_function(found))
        ):
            raise NotQuickError(f"reads .{name} of {describe(getattr(owner, 'value', None))}")
        return lift(found)


_HOLD_VALUES = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.MethodDescriptorType),
    *(types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.BuiltinFunctionType),
    type(inspect.getattr_static(inspect.FullArgSpec, "args")),  # a named tuple's field
    enum.property,
)
_BUILTIN_TYPES = [
    *(bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict, type, slice),
    *(enumerate, zip, map, filter, reversed),
]


def _name_of(callee: Any) -> str:
    """Name a callable, with its module if it has one."""
    if not is_function(callee) and type not in type(callee).__mro__:
        return describe(callee)
    name = getattr(callee, "__qualname__", None) or type(callee).__name__
    home = getattr(callee, "__module__", None)
    name = name.replace("<locals>.", "").split(".<")[0]
    return name if home in (None, "builtins", "__main__") else f"{home}.{name}"


def _defaults(function: types.FunctionType, node: ast.FunctionDef | ast.Lambda) -> dict[str, Value]:
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    given = function.__defaults__ or ()
    made = dict(zip(names[len(names) - len(given) :], map(lift, given), strict=True))
    return made | {name: lift(v) for name, v in (function.__kwdefaults__ or {}).items()}


def _bind(
    node: ast.FunctionDef | ast.Lambda,
    defaults: typing.Mapping[str, Value],
    arguments: Arguments,
    hints: typing.Mapping[str, Any],
) -> dict[str, Value]:
    """Make parameter -> value; data of unknown type gets the type of the annotation."""
    spec = node.args
    positional = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
    names = [*positional, *(arg.arg for arg in spec.kwonlyargs)]
    bound: dict[str, Value] = {}
    if arguments.rest is not None:
        bound = dict.fromkeys(names, arguments.all() | NOTHING.union(*defaults.values()))
    else:
        bound |= {name: value for name, value in defaults.items() if name in names}
        bound |= dict(zip(positional, arguments.positional, strict=False))
        bound |= {name: v for name, v in arguments.named.items() if name in names}
    if any(name not in bound for name in names):
        raise NotQuickError("is called without one of its arguments")
    rest = NOTHING.union(*arguments.positional[len(positional) :], arguments.rest or NOTHING)
    if spec.vararg:
        bound[spec.vararg.arg] = boxed(rest, rest)
    if spec.kwarg:
        more = [v for name, v in arguments.named.items() if name not in names]
        bound[spec.kwarg.arg] = boxed(ANY, NOTHING.union(*more, arguments.rest or NOTHING))
    return {name: _typed(value, hints.get(name)) for name, value in bound.items()}


def _typed(value: Value, hint: Any) -> Value:
    unknown = Data()
    if hint is None or unknown not in value:
        return value
    return (value - {unknown}) | data(hint)
