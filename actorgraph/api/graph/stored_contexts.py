"""Contexts that wait with their run, under a graph whose `context_schema` has changed since.

An object keeps the name of its class, which `Migration.types` leads to today's. A dict keeps none,
so a note is stored beside it: the schema's name, and which of its keys the schema had. With it the
same Migration makes the new context, and a key that the schema has lost is found.
"""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.api.graph.arguments import context_in
from actorgraph.codec.building import upgraded
from actorgraph.codec.decode_errors import type_cure
from actorgraph.codec.stored_types import name_of
from actorgraph.errors import InvalidContextError
from actorgraph.plan.annotations import class_annotations
from actorgraph.plan.plan import Plan
from actorgraph.plan.state_objects import fields_in
from actorgraph.values.graph_changes import Finding, FindingKind

Note = Mapping[str, Any]
"""Of a dict: "type", the schema's name; "keys", those of the dict that the schema had; "lacks",
keys without which it was accepted. Empty for any other context."""


def note_of(plan: Plan, context: Any) -> dict[str, Any]:
    """Make the note to store beside a context; empty if none is needed."""
    schema = plan.sources.context
    if not isinstance(schema, type) or not isinstance(context, Mapping):
        return {}
    given = cast("Mapping[Any, Any]", context)
    known, needed = _keys_of(schema)
    return {
        "type": name_of(schema),
        "keys": sorted(known.intersection(given)),
        "lacks": sorted(needed.difference(given)),
    }


def migrated_context(plan: Plan, context: Any, note: Note) -> Any:
    """Bring a stored context up to date, by the graph's `Migration.types`.

    Args:
        context: as decoded: objects have been migrated with that.
        note: stored beside it.
    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    change = _change(plan, note)
    if change is None or isinstance(change, type) or not isinstance(context, Mapping):
        return context
    return upgraded(change, note["type"], dict(cast("Mapping[str, Any]", context)))


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
        return _finding(plan, note, what, error.what)
    change = _change(plan, note)
    if not note or not isinstance(context, Mapping) or (change and not isinstance(change, type)):
        return None
    known, needed = _keys_of(schema)
    lost = sorted(set(note["keys"]).difference(known))
    if lost:
        return _finding(plan, note, what, f"it would leave out {', '.join(map(repr, lost))}")
    new = sorted(needed.difference(cast("Any", context), note["lacks"]))
    return _finding(plan, note, what, f"it needs {', '.join(map(repr, new))}") if new else None


def _change(plan: Plan, note: Note) -> Any:
    """The migration of a noted type; the last one counts, as in the codec."""
    name, found = note.get("type"), None
    for migration in plan.migrations:
        found = migration.types.get(name or "", found)
    return found


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
