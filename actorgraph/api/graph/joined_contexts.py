"""A context that is stored in parts: an assistant's, and that of a cron or a request over it.

The parts may be of several versions of the schema. Those that a migration's function is for become
today's first. Where it is for all of them it gets them together, since one alone may lack fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actorgraph.api.graph.stored_contexts import (
    Note,
    function_for,
    migrated_context,
    refused_context,
)
from actorgraph.plan.plan import Plan
from actorgraph.plan.state_objects import all_of, fields_in
from actorgraph.values.graph_changes import Finding

Part = tuple[Mapping[str, Any], Note]
"""A part of a context, and the note that is stored beside it."""


def joined_context(plan: Plan, parts: Sequence[Part]) -> tuple[dict[str, Any], Note, bool]:
    """Merge the parts of a context, brought up to date.

    Args:
        parts: later ones are over earlier ones.
    Returns: the context as a dict, its note, and whether a migration has changed it.
    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    old = [note != {} and function_for(plan, given, note) is not None for given, note in parts]
    whole = _merged([given for given, _ in parts])
    if not any(note for _, note in parts):
        made = migrated_context(plan, whole, {})
        return _fields_of(made), {}, made is not whole
    if all(old):
        return _fields_of(migrated_context(plan, whole, parts[0][1])), {}, True
    merged = _merged(
        [
            _given_in(migrated_context(plan, given, note), given) if is_old else given
            for (given, note), is_old in zip(parts, old, strict=True)
        ]
    )
    kept = [note for (_, note), is_old in zip(parts, old, strict=True) if note and not is_old]
    return merged, _note_over(kept), any(old)


def refused_parts(plan: Plan, parts: Sequence[Part], what: str) -> Finding | None:
    """Find out why a context in parts doesn't fit the graph, if that is so.

    Args:
        what: the clause that it begins with: "the context of cron 'c'".
    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    made, note, _ = joined_context(plan, parts)
    return refused_context(plan, made, note, what)


def _merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _note_over(notes: Sequence[Note]) -> Note:
    """Join the notes of parts: a key counts as missing before if all of them lacked it."""
    if not notes:
        return {}
    keys = sorted({key for note in notes for key in note["keys"]})
    lacks = set.intersection(*(set(note["lacks"]) for note in notes))
    joined: dict[str, Any] = {**notes[0], "keys": keys, "lacks": sorted(lacks)}
    if len(notes) > 1:  # together they are whole
        joined.pop("partial", None)
    return joined


def _fields_of(made: Any) -> dict[str, Any]:
    return dict(made) if isinstance(made, Mapping) else dict(all_of(made) or ())


def _given_in(made: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a migrated part; defaults that weren't given would hide other parts' values."""
    known = None if isinstance(made, Mapping) else fields_in(type(made))
    found = _fields_of(made)
    if known is None:
        return found
    defaults = known.defaults
    return {
        name: value
        for name, value in found.items()
        if name in given or name not in defaults or not defaults[name].is_same(value)
    }
