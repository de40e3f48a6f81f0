"""The parameters of a node that the runtime fills in, by their names and annotations.

| parameter  | filled with                                              | when annotated as       |
|------------|----------------------------------------------------------|-------------------------|
| `runtime`  | `Runtime`                                                | anything                |
| `previous` | the thread's last saved return (functional API)          | anything                |
| `config`   | the call's config with the task's place                  | `RunnableConfig`, a dict|
| `writer`   | the writer of `stream_mode="custom"`                     | `StreamWriter`, `Writer`|
| `store`    | the store given to `compile`                             | a store                 |
| `error`    | the failure that an error handler handles                | `NodeError`             |

A parameter without an annotation counts as annotated so, and one that has another annotation
and no default is filled in all the same: the call would fail without it. One that has both, or
that a `functools.partial` has bound, is the program's own.
"""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

INJECTABLE = ("config", "error", "previous", "runtime", "store", "writer")

_ANY_TYPE = ("previous", "runtime")
_TYPE_NAMES = {
    "config": ("RunnableConfig", "dict", "Mapping", "Config"),
    "error": ("NodeError",),
    "store": ("Store",),
    "writer": ("StreamWriter", "Writer", "Callable"),
}


def injected(action: Callable[..., Any]) -> tuple[str, ...]:
    """List the injectable parameters that it declares after its first one."""
    declared = parameters_of(action)[1:]
    bound = _bound(action)
    return tuple(sorted(p.name for p in declared if p.name not in bound and _is_filled(p)))


def fillable(action: Callable[..., Any]) -> dict[str, int | None]:
    """Make injectable parameter of a step -> its positional place; None for keyword-only ones.

    A step is called with arguments of the program's own, which may fill in any of these.
    """
    bound = _bound(action)
    return {
        p.name: None if p.kind is p.KEYWORD_ONLY else place
        for place, p in enumerate(parameters_of(action))
        if p.name != "error" and p.name not in bound and _is_filled(p)
    }


def needs_store(action: Callable[..., Any]) -> bool:
    """Whether it requires a store: its `store` is neither optional nor has a default."""
    bound = _bound(action)
    return any(
        p.name == "store" and p.default is p.empty and not _is_optional(p.annotation)
        for p in parameters_of(action)[1:]
        if p.name not in bound
    )


def parameters_of(action: Callable[..., Any]) -> list[inspect.Parameter]:
    """List the parameters of a callable; [] if Python can't read its signature."""
    try:
        return list(inspect.signature(action).parameters.values())
    except (TypeError, ValueError):
        return []


def _bound(action: Any) -> frozenset[str]:
    names: set[str] = set()
    while isinstance(action, functools.partial):
        names.update(action.keywords)
        action = action.func
    return frozenset(names)


def _is_filled(parameter: inspect.Parameter) -> bool:
    name, empty = parameter.name, inspect.Parameter.empty
    if name not in INJECTABLE or parameter.kind in (
        parameter.POSITIONAL_ONLY,
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    ):
        return False
    if name in _ANY_TYPE or parameter.annotation is empty or parameter.default is empty:
        return True
    return any(kind in _text(parameter.annotation) for kind in _TYPE_NAMES[name])


def _is_optional(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "Optional" in annotation or "None" in annotation
    union = get_origin(annotation) in (Union, types.UnionType)
    return union and type(None) in get_args(annotation)


def _text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else f"{annotation!r}"
