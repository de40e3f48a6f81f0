"""The types that a graph's questions expect, found by the JSON schemas that the questions show.

A question is stored with a JSON schema; its type is in the node's function. The type alone decides
whether an answer fits: pydantic reads "5" as a number, and a schema that a program has written as
a dict checks nothing. So it is looked for where a node's function can name it: in its closure, its
module, and those of the functions it names. Nothing is called.
"""

import types
from collections.abc import Iterable, Iterator
from typing import Any

from actorgraph.plan.closures import closure_values
from actorgraph.plan.json_schema import json_schema
from actorgraph.plan.plan import Plan
from actorgraph.runtime.task.functions import converted_answer
from actorgraph.values.commands import Interrupt

_PLAIN = (bool, int, float, str)
DEPTH_MAX = 20
"""Levels of subgraphs whose functions are looked at."""


def refusal_of(plan: Plan, question: Interrupt, answer: Any) -> tuple[bool, str | None]:
    """Whether the type that a question expects is known, and why it refuses an answer, if so."""
    schema = question.response_schema
    title = schema.get("title") if isinstance(schema, dict) else None
    if not isinstance(title, str):
        return False, None
    for kind in (*_PLAIN, *_named(plan, title, DEPTH_MAX)):
        if kind.__name__ == title and _shown(kind) == schema:
            try:
                converted_answer(answer, kind)
            except ValueError as error:  # msgspec's and pydantic's errors are such
                return True, str(error)
            except Exception:  # noqa: BLE001 - a validator of the program's: the node decides
                return False, None
            return True, None
    return False, None


def _shown(kind: type) -> Any:
    try:
        return json_schema(kind, title=kind.__name__)
    except Exception:  # noqa: BLE001 - a class of the program's that only has the name
        return None


def _named(plan: Plan, name: str, left: int) -> Iterator[type]:
    """The classes of a name within reach of the functions of a graph and its subgraphs."""
    for node in plan.nodes.values():
        below = getattr(getattr(node.call, "__self__", None), "plan", None)
        if isinstance(below, Plan):
            if left:
                yield from _named(below, name, left - 1)
            continue
        for function in _functions(node.call):
            found = [function.__globals__.get(name), *closure_values(function)]
            for kind in found:
                if isinstance(kind, type) and kind.__name__ == name:
                    yield kind


def _functions(call: Any) -> Iterable[types.FunctionType]:
    """A function, those that it wraps, and those that it names."""
    left, found = [call], dict[types.FunctionType, None]()
    while left and len(found) < 100:
        thing = left.pop()
        thing = getattr(thing, "func", None) or getattr(thing, "__func__", thing)
        if type(thing) is not types.FunctionType or thing in found:
            continue
        found[thing] = None
        names = thing.__code__.co_names
        left += [thing.__globals__[name] for name in names if name in thing.__globals__]
        left += [*closure_values(thing), getattr(thing, "__wrapped__", None)]
    return found
