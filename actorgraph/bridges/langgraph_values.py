"""Conversion of LangGraph's objects to ours: hooks for values.

LangGraph is never imported here: while its module isn't loaded, no object can be of its classes.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from actorgraph.values.commands import Command, Interrupt, Overwrite, Send
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy

LANGGRAPH_TYPES = "langgraph.types"
"""The module that is loaded if a value may be of LangGraph's classes."""

_NO_ID = "placeholder-id"


def langgraph_module(name: str) -> Any:
    """Return a module of the real LangGraph if the program has imported it, else None.

    Modules by which `actorgraph.compat` answers `import langgraph` have only our own classes.
    """
    module = sys.modules.get(name)
    return None if getattr(module, "is_compat_module", False) else module


def layer_module(name: str) -> Any:
    """Return a module by which `actorgraph.compat` answers, if the program has imported it."""
    module = sys.modules.get(name)
    return module if getattr(module, "is_compat_module", False) else None


def adapt(thing: Any) -> Any:
    """Convert a Command, Send, Interrupt, Overwrite or policy of LangGraph's, also in a list.

    Anything else is returned as it is.
    """
    if LANGGRAPH_TYPES not in sys.modules or (theirs := langgraph_module(LANGGRAPH_TYPES)) is None:
        return thing
    if isinstance(thing, (list, tuple)) and not hasattr(thing, "_fields"):
        parts = cast("list[Any]", thing)
        return [_one(theirs, part) for part in parts] if _any_of(theirs, parts) else parts
    return _one(theirs, thing)


def adapt_update(update: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert the values of an update that are LangGraph's Overwrite."""
    theirs = _named(langgraph_module(LANGGRAPH_TYPES), "Overwrite")
    if theirs is None or not any(type(value) is theirs for value in update.values()):
        return update
    return {key: adapt(v) if type(v) is theirs else v for key, v in update.items()}


def adapt_pairs(pairs: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    """Convert the values of an update's pairs that are LangGraph's Overwrite."""
    theirs = _named(langgraph_module(LANGGRAPH_TYPES), "Overwrite")
    if theirs is None:
        return pairs
    return [(key, adapt(v) if type(v) is theirs else v) for key, v in pairs]


def adapt_input(given: Any) -> Any:
    """Convert the input of a run: an object of LangGraph's, or a dict with its Overwrites."""
    if type(given) is dict:
        return adapt_update(cast("dict[str, Any]", given))
    return adapt(given)


def is_command(kind: Any) -> bool:
    """Whether a class is LangGraph's Command."""
    return kind is not None and kind is _named(langgraph_module(LANGGRAPH_TYPES), "Command")


def holds_question(thing: Any) -> bool:
    """Whether a value is LangGraph's Interrupt, or a list with one."""
    kind = _named(langgraph_module(LANGGRAPH_TYPES), "Interrupt")
    parts = cast("list[Any]", thing) if isinstance(thing, (list, tuple)) else [thing]
    return kind is not None and any(isinstance(part, kind) for part in parts)


def _any_of(theirs: Any, parts: Any) -> bool:
    kinds = tuple(filter(None, (_named(theirs, name) for name in _MAKERS)))
    return any(isinstance(part, kinds) for part in parts)


def _one(theirs: Any, thing: Any) -> Any:
    for name, make in _MAKERS.items():
        kind = _named(theirs, name)
        if kind is not None and isinstance(thing, kind):
            return make(thing)
    return thing


def _named(module: Any, name: str) -> Any:
    found = getattr(module, name, None)
    return found if isinstance(found, type) else None


def _command(given: Any) -> Command[Any]:
    update = given.update
    if isinstance(update, dict):
        update = {key: adapt(value) for key, value in cast("dict[Any, Any]", update).items()}
    return Command(graph=given.graph, update=update, resume=given.resume, goto=adapt(given.goto))


def _send(given: Any) -> Send:
    return Send(given.node, given.arg, adapt(getattr(given, "timeout", None)))


def _interrupt(given: Any) -> Interrupt:
    schema = getattr(given, "response_schema", None)
    identifier = "" if given.id == _NO_ID else given.id
    return Interrupt(given.value, identifier, schema if isinstance(schema, dict) else None)


def _overwrite(given: Any) -> Overwrite:
    return Overwrite(given.value)


def _retry(given: Any) -> RetryPolicy:
    return RetryPolicy(*given)


def _cache(given: Any) -> CachePolicy[Any]:
    key = given.key_func
    is_default = key is type(given).__dataclass_fields__["key_func"].default
    return CachePolicy(None if is_default else key, given.ttl)


def _timeout(given: Any) -> TimeoutPolicy:
    return TimeoutPolicy(given.run_timeout, given.idle_timeout, given.refresh_on)


_MAKERS = {
    "Command": _command,
    "Send": _send,
    "Interrupt": _interrupt,
    "Overwrite": _overwrite,
    "RetryPolicy": _retry,
    "CachePolicy": _cache,
    "TimeoutPolicy": _timeout,
}
"""Name of LangGraph's class -> the function that converts its objects."""
