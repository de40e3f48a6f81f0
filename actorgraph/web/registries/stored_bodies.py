"""Contexts and inputs that the server stores with assistants and crons, under changed graphs.

They outlive the version of a graph that they were written for. So a note is stored with each, as
with the runs that wait (`stored_contexts`), and the graph's migrations bring them up to date
wherever they are read. A body that doesn't fit is refused before a run is stored, and stays stored.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from actorgraph.errors import ActorGraphError, SchemaMismatchError
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import ContextPart as Part
from actorgraph.internals import (
    Finding,
    joined_context,
    migrated_input,
    noted,
    refused_input,
    refused_parts,
)
from actorgraph.internals import context_fits as fits
from actorgraph.internals import context_note_of as note_of
from actorgraph.web.http import bodies
from actorgraph.web.http.identity import without_claims
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.registries.assistant_registry import StoredAssistant

Settings = Mapping[str, Any]
"""A stored body, or the settings of an assistant: with "config", "context" or both."""


def settings_note(graph: CompiledStateGraph, settings: Settings) -> dict[str, Any]:
    """Make the note to store beside settings: one of the context, one of the `configurable`."""
    found: dict[str, Any] = {}
    for place, given in _places(settings).items():
        note = note_of(graph.plan, given)
        if note and not fits(graph.plan, given):
            note["partial"] = True
        found[place] = note
    return {place: note for place, note in found.items() if note}


def input_note(graph: CompiledStateGraph) -> dict[str, Any]:
    """Make the note to store beside an input: the graph, and conversions that it needs no more."""
    return {"graph": graph.plan.graph_id, "converted": noted(graph.plan, {})}


def _places(settings: Settings) -> dict[str, dict[str, Any]]:
    """The parts of settings that may be a context: that itself, and the keys of `configurable`."""
    places = {
        "context": settings.get("context"),
        "configurable": (settings.get("config") or {}).get("configurable"),
    }
    return {name: without_claims(given) for name, given in places.items() if given}


def _part(graph: CompiledStateGraph, settings: Settings, notes: Settings, place: str) -> Part:
    given, note = _places(settings).get(place, {}), notes.get(place, {})
    if place == "configurable":  # only some of it is the context
        names = (graph.get_context_jsonschema() or {}).get("properties", {})
        given = {k: v for k, v in given.items() if k in names or k in note.get("keys", ())}
    return given, note


def _parts(graph: CompiledStateGraph, *over: tuple[Settings, Settings]) -> list[Part]:
    """The parts of the context that settings over one another make, the lowest first.

    Args:
        over: settings, and the note that is stored beside them.
    """
    if not isinstance(graph.plan.sources.context, type):
        return []
    place = "context" if any(one.get("context") for one, _ in over) else "configurable"
    parts = [_part(graph, one, notes, place) for one, notes in over]
    return [(given, note) for given, note in parts if given]


def _settings_of(assistant: StoredAssistant) -> tuple[Settings, Settings]:
    now = assistant.now
    return {"config": now.config, "context": now.context}, now.note


def refused_assistant(
    graph: CompiledStateGraph, assistant: StoredAssistant, what: str = ""
) -> Finding | None:
    """Find out why an assistant's own context doesn't fit its graph, if that is so.

    Args:
        what: the clause that it begins with; "" for one that names the assistant.
    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    parts = _parts(graph, _settings_of(assistant))
    what = what or f"the context of assistant {assistant.assistant_id!r}"
    return refused_parts(graph.plan, parts, what) if parts else None


def migrates_assistant(graph: CompiledStateGraph, assistant: StoredAssistant) -> bool:
    """Whether migrations change an assistant's own context, which fits the graph.

    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    parts = _parts(graph, _settings_of(assistant))
    return bool(parts) and joined_context(graph.plan, parts)[2]


class TickWords(NamedTuple):
    """The clauses that the findings about a cron's run begin with.

    Attributes:
        context: of the cron's context.
        assistant: of its assistant's; "" for one that names the assistant.
        input: of the cron's input.
    """

    context: str
    assistant: str
    input: str


def words_of_cron(cron_id: str) -> TickWords:
    """Return the clauses that name a cron, or its assistant."""
    return TickWords(f"the context of cron {cron_id!r}", "", f"the input of cron {cron_id!r}")


def refused_tick(
    graph: CompiledStateGraph,
    assistant: StoredAssistant,
    stored: tuple[Settings, Settings],
    words: TickWords,
) -> Finding | None:
    """Find out why the context of a cron's run doesn't fit its graph, if that is so.

    Args:
        stored: the cron's payload, and the note beside that.
    Raises:
        ChangedTypeError: a function of a migration raised.
    """
    parts = _parts(graph, _settings_of(assistant), stored)
    if not parts or refused_parts(graph.plan, parts, "") is None:
        return None
    own = None if assistant.system else refused_assistant(graph, assistant, words.assistant)
    return own or refused_parts(graph.plan, parts, words.context)


def body_of_request(
    graph: CompiledStateGraph, assistant: StoredAssistant, body: bodies.RunBody
) -> bodies.RunBody:
    """Return the body of a request's run, with the assistant's settings under it.

    Raises:
        SchemaMismatchError: the assistant's context is of another version, and doesn't fit.
        ChangedTypeError: a function of a migration raised.
    """
    if assistant.system:  # it has no settings
        return body
    whole, own = assistant.under(body), _settings_of(assistant)
    if not _parts(graph, own):
        return whole
    configurable = None if body.config is None else body.config.configurable
    said: dict[str, Any] = {"context": body.context, "config": {"configurable": configurable}}
    parts = _parts(graph, own, (said, settings_note(graph, said)))
    made, _, changed = joined_context(graph.plan, parts)
    if refused_parts(graph.plan, parts, "") is not None:
        _raise(refused_assistant(graph, assistant))  # else the request itself is refused
    return replace(whole, context=made) if changed else whole


def body_of_tick(
    graph: CompiledStateGraph,
    assistant: StoredAssistant,
    body: bodies.RunBody,
    stored: tuple[str, Settings, Settings],
) -> bodies.RunBody:
    """Return the body of a cron's run, with the assistant's settings under it.

    Args:
        stored: the cron's id, its payload, and the note beside that.
    Raises:
        SchemaMismatchError: the context is of another version, and doesn't fit.
        ChangedTypeError: a function of a migration raised.
    """
    whole, (cron_id, payload, notes) = assistant.under(body), stored
    parts = _parts(graph, _settings_of(assistant), (payload, notes))
    if not parts:
        return whole
    _raise(refused_tick(graph, assistant, (payload, notes), words_of_cron(cron_id)))
    made, _, changed = joined_context(graph.plan, parts)
    return replace(whole, context=made) if changed else whole


def input_of_tick(graph: CompiledStateGraph, given: Any, cron_id: str, note: Settings) -> Any:
    """Return the input or Command of a cron's run, brought up to date.

    Raises:
        SchemaMismatchError: it is of another version, and doesn't fit.
    """
    _raise(refused_tick_input(graph, given, note, words_of_cron(cron_id)))
    return migrated_input(graph.plan, given, note.get("converted", {}))


def refused_tick_input(
    graph: CompiledStateGraph, given: Any, note: Settings, words: TickWords
) -> Finding | None:
    """Find out why the input or Command of a cron's run doesn't fit its graph, if that is so."""
    if not note or note["graph"] == graph.plan.graph_id:
        return None
    made = migrated_input(graph.plan, given, note.get("converted", {}))
    return refused_input(graph.plan, made, words.input)


def _raise(finding: Finding | None) -> None:
    if finding is not None:
        raise SchemaMismatchError(f"{finding.where}, {finding.why}", do=finding.do)


def shown_context(graph: Any, settings: Settings, notes: Settings) -> Any:
    """Return a stored context for clients: up to date if migrations make it so, else as stored."""
    context = settings.get("context")
    if not isinstance(graph, CompiledStateGraph) or not context:
        return context
    part = (context, notes.get("context", {}))
    try:
        if refused_parts(graph.plan, [part], "") is not None:
            return context
        made, _, changed = joined_context(graph.plan, [part])
    except ActorGraphError:
        return context
    return to_plain(made) if changed else context
