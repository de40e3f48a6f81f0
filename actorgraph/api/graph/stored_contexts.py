"""Contexts that wait with their run, under a graph whose `context_schema` has changed since.

An object keeps the name of its class, which `Migration.types` leads to today's. A dict keeps none,
so a note is stored beside it: the schema's name, which of its keys the schema had, and the function
for it that the graph had already. With it the same Migration makes the new context, and a key that
the schema has lost is found. A dict without a note is taken as a call's: no schema had accepted it,
or a version of the library that made no notes; one that the schema refuses is migrated as the
schema's own.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from actorgraph.api.graph.arguments import context_in
from actorgraph.codec.building import upgraded
from actorgraph.codec.decode_errors import type_cure
from actorgraph.codec.stored_types import name_of
from actorgraph.errors import InvalidContextError
from actorgraph.plan.annotations import class_annotations
from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import digest_of
from actorgraph.plan.state_objects import fields_in
from actorgraph.values.graph_changes import Finding, FindingKind

Note = Mapping[str, Any]
"""Of a dict: "type", the schema's name; "keys", those of the dict that the schema had; "lacks",
keys without which it was accepted; "by", the function of a migration for the type that the graph
had; "partial", that the schema needs more. The last two only if set. Empty for other contexts."""


def note_of(plan: Plan, context: Any) -> dict[str, Any]:
    """Make the note to store beside a context; empty if none is needed."""
    schema = plan.sources.context
    if not isinstance(schema, type) or not isinstance(context, Mapping):
        return {}
    given = cast("Mapping[Any, Any]", context)
    known, needed = _keys_of(schema)
    name = name_of(schema)
    _, by = _last_for(plan, name)
    return {
        "type": name,
        "keys": sorted(known.intersection(given)),
        "lacks": sorted(needed.difference(given)),
        **({"by": by} if by else {}),
    }


def migrated_context(plan: Plan, context: Any, note: Note) -> Any:
    """Bring a stored context up to date, by the graph's `Migration.types`.

    Args:
        context: as decoded: objects have been migrated with that.
        note: stored beside it.
    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    function = function_for(plan, context, note)
    if function is None:
        return context
    name = note.get("type") or name_of(plan.sources.context)
    return upgraded(function, name, dict(cast("Mapping[str, Any]", context)))


def function_for(plan: Plan, context: Any, note: Note) -> Callable[[Any], Any] | None:
    """Return the function of a migration that makes today's context of a stored dict.

    None without such a function, or if a graph that had it accepted the dict.
    """
    schema = plan.sources.context
    if not isinstance(context, Mapping) or not isinstance(schema, type):
        return None
    change, by = _last_for(plan, note.get("type") or name_of(schema))
    if change is None or isinstance(change, type) or (note and note.get("by") == by):
        return None
    return change if note or not fits(plan, context) else None


def fits(plan: Plan, context: Any) -> bool:
    """Whether a call would take the context."""
    try:
        context_in(plan, context)
    except InvalidContextError:
        return False
    return True


def refused_context(plan: Plan, context: Any, note: Note, what: str) -> Finding | None:
    """Find out why a stored context doesn't fit the graph, if that is so.

    Args:
        context: brought up to date.
        what: the clause that it begins with: "a run waits whose context".
    """
    schema = plan.sources.context
    if context is None or not isinstance(schema, type):
        return None
    try:
        context_in(plan, context)
    except InvalidContextError as error:
        if not note.get("partial"):
            return _finding(plan, note, what, error.what)
    if not note or not isinstance(context, Mapping) or function_for(plan, context, note):
        return None
    known, needed = _keys_of(schema)
    lost = sorted(set(note["keys"]).difference(known))
    if lost:
        return _finding(plan, note, what, f"it would leave out {', '.join(map(repr, lost))}")
    new = sorted(needed.difference(cast("Any", context), note["lacks"]))
    return _finding(plan, note, what, f"it needs {', '.join(map(repr, new))}") if new else None


def _last_for(plan: Plan, name: str) -> tuple[Any, str]:
    """The last change of a type, as in the codec, and what it is known by if it is a function."""
    change, by = None, ""
    for migration in plan.migrations:
        if name in migration.types:
            change = migration.types[name]
            by = migration.name or ("" if isinstance(change, type) else digest_of(change))
    return change, "" if isinstance(change, type) else by


def _keys_of(schema: type) -> tuple[frozenset[str], frozenset[str]]:
    """The keys that a dict may have for a schema, and those that a TypedDict needs.

    The constructor of a class with fields says which ones that needs.
    """
    fields = fields_in(schema)
    if fields is None:
        needed: frozenset[str] = getattr(schema, "__required_keys__", frozenset())
        return frozenset(class_annotations(schema)), needed
    roots = (path[0] for path in fields.paths.values())
    return frozenset([*fields.names, *fields.aliases, *roots]), frozenset()


def _finding(plan: Plan, note: Note, what: str, why: str) -> Finding:
    name = note.get("type") or name_of(plan.sources.context)
    cure = type_cure(name)
    return Finding(
        FindingKind.VALUE,
        name,
        f"{what}, a {name!r}, was for another version",
        f"which graph {plan.title!r} refuses: {why}",
        cure,
        f"give new fields a default; or compile(migrations=[{cure}]), where the function gets the "
        "given dict; or let the version that accepted it run it",
    )
