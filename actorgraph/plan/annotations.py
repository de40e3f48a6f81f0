"""Annotations of functions and classes: the only place that reads and resolves them.

Each annotation is resolved on its own, and each name in it: one that doesn't exist at run time
(imported under `TYPE_CHECKING`, say) becomes an `Unknown` in its place, and everything around it is
kept. Of `Annotated[Receipt, InjectedState]` the mark is still seen, of `Command[Literal["a"]] |
Receipt` the destination; users decide what an Unknown means to them.

A name is looked up where the code around the annotation would: type parameters, nested classes of
the class, the function's closure, enclosing functions that are still running (a graph that is built
where its classes are defined), the module, builtins.
"""

import builtins
import functools
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from copy import copy
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, Union, cast, get_args, get_origin

from actorgraph.errors.signatures import signature_of
from actorgraph.plan.annotation_forms import (
    DEPTH_MAX,
    Unknown,
    bound_parameters,
    class_of,
    is_typed_dict,
    substitute,
    unknown_in,
)

LAYERS_MAX = 100
"""Decorators, partials and methods around one function that are looked through."""
FRAMES_MAX = 500
"""Frames of the calling code in which the enclosing function of a local class is looked for."""

_READ = "__actorgraph_annotations__"
"""Attribute of a class of a function: its annotations, which can't be resolved once that ends."""


def declared_names(cls: type) -> tuple[str, ...]:
    """List the names that a class and its bases annotate, those of bases first."""
    return tuple(dict.fromkeys(name for base in reversed(cls.__mro__) for name in _declared(base)))


def function_annotations(function: Any) -> dict[str, Any]:
    """Read the annotations of a callable: parameter -> annotation, and "return".

    Args:
        function: a function, method, partial, decorated function, class, or object with `__call__`.
    Returns: what could be resolved, with an `Unknown` for each name that couldn't.
    """
    outer, inner, owner = _functions(function)
    if function is inner and "__signature__" not in function.__dict__:
        raws = dict(_declared(function))  # the signature says the same, and takes longer
    else:
        raws = _signature_annotations(function)
        if outer is not None and (outer is not inner or not raws):
            raws |= _declared(outer)  # a decorator may have written others
    if not raws:
        return {}
    names = _Scopes.of_function(inner, owner)
    return {name: _resolved(raw, names) for name, raw in raws.items()}


def class_annotations(source: Any) -> dict[str, Any]:
    """Read the annotations of a class and of its bases: name -> annotation.

    Args:
        source: a class, or a generic class with its arguments, such as `State[int]`.
    Returns: what could be resolved, with an `Unknown` for each name that couldn't; type parameters
        are replaced by their arguments or defaults.
    """
    found: dict[str, Any] = {}
    raws: dict[str, Any] = {}
    for cls, bound in _lineage(source):
        own, resolved = _declared(cls), None
        for name, raw in own.items():
            if is_typed_dict(cls) and name in raws and raws[name] == raw:
                continue  # a TypedDict repeats its bases' keys
            resolved = _own(cls, own) if resolved is None else resolved
            raws[name] = raw
            found[name] = substitute(resolved[name], bound)
    return _by_pydantic(class_of(source), found)


# ----- as written ------------------------------------------------------------------------------

if sys.version_info >= (3, 14):
    import annotationlib

    def _declared(thing: Any) -> Mapping[str, Any]:
        return annotationlib.get_annotations(thing, format=annotationlib.Format.FORWARDREF)

else:

    def _declared(thing: Any) -> Mapping[str, Any]:
        """Return the annotations of a class without its bases, or of a function, as written."""
        return inspect.get_annotations(thing)


def has_annotations(cls: type) -> bool:
    """Whether the class itself annotates anything."""
    return bool(_declared(cls))


def _signature_annotations(function: Any) -> dict[str, Any]:
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):
        return {}
    empty = inspect.Parameter.empty
    found = {p.name: p.annotation for p in signature.parameters.values()}
    found["return"] = signature.return_annotation
    return {name: raw for name, raw in found.items() if raw is not empty}


def _functions(thing: Any) -> tuple[Any, Any, Any]:
    """Return the first and the innermost function below decorators, partials and methods.

    Returns: both, or None; and the object or class whose method the innermost is.
    """
    outer = owner = None
    for _ in range(LAYERS_MAX):
        wrapped = getattr(thing, "__dict__", {}).get("__wrapped__")
        if isinstance(thing, functools.partial):
            thing = cast("functools.partial[Any]", thing).func
        elif isinstance(thing, types.MethodType):
            thing, owner = thing.__func__, thing.__self__
        elif isinstance(thing, (staticmethod, classmethod)):
            thing = thing.__func__
        elif isinstance(thing, type):
            return outer, None, thing
        elif isinstance(thing, types.FunctionType):
            outer = outer or thing
            if wrapped is None:
                return outer, thing, owner
            thing = wrapped
        elif wrapped is not None:
            thing = wrapped
        elif thing is None or inspect.isroutine(thing):
            break
        else:
            thing, owner = getattr(type(thing), "__call__", None), thing  # noqa: B004 - not a test
    return outer, None, owner


def _lineage(source: Any) -> Iterator[tuple[type, Mapping[Any, Any]]]:
    """Yield a class and its bases, outermost first, with the arguments of their parameters.

    The bases of a TypedDict are not among its `__mro__`.
    """
    bound = bound_parameters(source)
    cls = class_of(source)
    order = bound if is_typed_dict(cls) else reversed(cls.__mro__)
    for each in order:
        yield each, bound.get(each, {})


def _own(cls: type, declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve what a class itself annotates."""
    if (known := vars(cls).get(_READ)) is not None:
        return known
    names = _Scopes.of_class(cls)
    found = {name: _resolved(raw, names) for name, raw in declared.items()}
    if names.used_frames and not any(map(unknown_in, found.values())):
        setattr(cls, _READ, found)
    return found


def _by_pydantic(cls: type, found: dict[str, Any]) -> dict[str, Any]:
    """Take annotations that pydantic has resolved, by the namespaces that it was given."""
    fields: Mapping[str, Any] = getattr(cls, "model_fields", {})
    for name in [name for name, hint in found.items() if name in fields and unknown_in(hint)]:
        info = fields[name]
        extras = tuple(info.metadata)
        read = Annotated[(info.annotation, *extras)] if extras else info.annotation
        if not _has_forward(read):
            found[name] = read
    return found


def _has_forward(annotation: Any, depth: int = 0) -> bool:
    if isinstance(annotation, (str, ForwardRef)):
        return True
    origin = get_origin(annotation)
    args = get_args(annotation)[:1] if origin is Annotated else get_args(annotation)
    return (
        origin is not Literal
        and depth <= DEPTH_MAX
        and any(_has_forward(arg, depth + 1) for arg in args)
    )


# ----- resolved --------------------------------------------------------------------------------


class _Scopes:
    """The names that the text of an annotation may use; a mapping for `eval`.

    Args:
        home: the module's names.
        qualname: of the function or class: "build.<locals>.State".
        closure: the variables of enclosing functions that a function uses.
        classes: classes whose nested classes can be named.
        parameters: type parameters.
    """

    def __init__(
        self,
        home: dict[str, Any],
        qualname: str,
        closure: Mapping[str, Any] | None = None,
        classes: tuple[type, ...] = (),
        parameters: tuple[Any, ...] = (),
    ) -> None:
        self.home = home
        self.extra: Mapping[str, Any] = {}
        self.used_frames = False
        self._qualname = qualname
        self._first = {p.__name__: p for p in parameters} | dict(closure or {})
        self._classes = classes
        self._around: list[tuple[bool, Mapping[str, Any]]] | None = None

    @classmethod
    def of_function(cls, function: Any, owner: Any) -> "_Scopes":
        """Make the names of a function.

        Args:
            function: None for a class that is called, or a function that isn't Python's.
            owner: the object or class whose method it is; None for none.
        """
        kind = owner if isinstance(owner, type) else type(owner)
        if function is None:
            return cls.of_class(kind)
        code = function.__code__
        closure: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            try:
                closure[name] = cell.cell_contents
            except ValueError:  # it is filled later
                continue
        home = code.co_qualname.rpartition(".")[0]
        classes = tuple(each for each in kind.__mro__ if each.__qualname__ == home)
        parameters = getattr(function, "__type_params__", ())
        return cls(function.__globals__, code.co_qualname, closure, classes, parameters)

    @classmethod
    def of_class(cls, kind: type) -> "_Scopes":
        """Make the names of a class."""
        home = getattr(sys.modules.get(kind.__module__), "__dict__", {})
        parameters = getattr(kind, "__type_params__", ())
        return cls(home, kind.__qualname__, None, (kind,), parameters)

    def of_reference(self, reference: ForwardRef) -> "_Scopes":
        """Return the names of the module that a reference was written in."""
        module: Any = reference.__forward_module__
        home = getattr(sys.modules.get(module), "__dict__", None)
        made = self if home is None or home is self.home else _Scopes(home, "")
        more = getattr(reference, "__extra_names__", None)
        if more:  # of Python 3.14: what a reference names besides variables
            made = copy(made)
            made.extra = more
        return made

    def __getitem__(self, name: str) -> Any:
        for first in (self.extra, self._first):
            if name in first:
                return first[name]
        for only_types, names in self._scopes():
            if name in names and (not only_types or _is_type(names[name])):
                return names[name]
        if name in self.home:
            return self.home[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        return Unknown(name, f"name {name!r} is not defined")

    def _scopes(self) -> list[tuple[bool, Mapping[str, Any]]]:
        """Return the names of the classes and functions around, and whether only types count.

        A default or a method may have the name of a type: `date: date = None`.
        """
        if self._around is None:
            self._around = [(True, vars(kind)) for kind in self._classes]
            self._around += self._enclosing()
        return self._around

    def _enclosing(self) -> Iterator[tuple[bool, Mapping[str, Any]]]:
        wanted = _prefixes(self._qualname)
        running = self._running({name for name, _ in wanted}) if wanted else {}
        for name, is_class in wanted:
            if name in running:
                self.used_frames = True
                yield is_class, running[name]
            elif is_class and (found := self._class_named(name, running)) is not None:
                yield True, vars(found)
                yield False, {p.__name__: p for p in getattr(found, "__type_params__", ())}

    def _running(self, wanted: set[str]) -> dict[str, Mapping[str, Any]]:
        """Return qualified name -> variables of each enclosing function that is running."""
        found: dict[str, Mapping[str, Any]] = {}
        frame = getattr(sys, "_getframe", lambda: None)()
        for _ in range(FRAMES_MAX):
            if frame is None or len(found) == len(wanted):
                break
            name = frame.f_code.co_qualname
            is_wanted = name in wanted and name not in found
            if is_wanted and frame.f_globals.get("__name__") == self.home.get("__name__"):
                found[name] = frame.f_locals
            frame = frame.f_back
        return found

    def _class_named(self, qualname: str, running: Mapping[str, Mapping[str, Any]]) -> Any:
        function, _, rest = qualname.rpartition(".<locals>.")
        first, *more = rest.split(".")
        found = (running.get(function, {}) if function else self.home).get(first)
        for name in more:
            found = getattr(found, "__dict__", {}).get(name)
        return found if isinstance(found, type) and found.__qualname__ == qualname else None


def _prefixes(qualname: str) -> list[tuple[str, bool]]:
    """List the functions and classes around a name, innermost first; True for classes."""
    parts = qualname.split(".")
    return [
        (".".join(parts[:end]), parts[end] != "<locals>")
        for end in range(len(parts) - 1, 0, -1)
        if parts[end - 1] != "<locals>"
    ]


def _is_type(value: Any) -> bool:
    named = hasattr(value, "__value__") or hasattr(value, "__supertype__")
    return isinstance(value, type) or get_origin(value) is not None or named


def _resolved(annotation: Any, names: _Scopes, depth: int = 0) -> Any:
    """Replace the texts and references in an annotation by what they name."""
    if annotation is None:
        return NoneType
    if depth > DEPTH_MAX:
        return annotation
    if isinstance(annotation, str):
        return _resolved(_evaluated(annotation, names), names, depth + 1)
    if isinstance(annotation, ForwardRef):
        names = names.of_reference(annotation)
        return _resolved(annotation.__forward_arg__, names, depth + 1)
    if isinstance(annotation, list):  # the parameters of a Callable
        items = cast("list[Any]", annotation)
        return [_resolved(item, names, depth + 1) for item in items]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not args:
        return annotation
    kept = args[1:] if origin is Annotated else ()
    inner = args[:1] if origin is Annotated else args
    new = tuple(arg if arg is NoneType else _resolved(arg, names, depth + 1) for arg in inner)
    if all(a is b or a == b for a, b in zip(new, inner, strict=True)):
        return annotation
    return _rebuilt(origin, (*new, *kept), annotation)


def _rebuilt(origin: Any, args: tuple[Any, ...], as_it_was: Any) -> Any:
    try:
        if origin is UnionType:
            return Union[args]  # noqa: UP007 - the members are known only here
        return origin[args if len(args) != 1 else args[0]]
    except Exception as error:  # noqa: BLE001 - a class may raise anything
        return Unknown(f"{as_it_was}", f"{error}")


def _evaluated(text: str, names: _Scopes) -> Any:
    try:
        return eval(text, names.home, cast("Any", names))  # noqa: S307 - the program's own code
    except Exception as error:  # noqa: BLE001 - a program's annotation may raise anything
        return Unknown(text, f"{error}" or type(error).__name__)
