"""Routes that create, change, version and delete assistants."""

from typing import Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from actorgraph.internals import assistant_id
from actorgraph.web.endpoints.assistant_lookup import assistant_of, check_changeable, is_allowed
from actorgraph.web.endpoints.assistants import assistant_response, version_response
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint, graph_of_assistant
from actorgraph.web.endpoints.thread_state import remove_thread
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Conflict, Unprocessable
from actorgraph.web.http.request_limits import check_merged
from actorgraph.web.registries.assistant_registry import (
    StoredAssistant,
    VersionOfAssistant,
    missing,
)
from actorgraph.web.registries.stored_bodies import settings_note
from actorgraph.web.registries.thread_registry import moment


class DeleteQuery(Struct):
    """Whether to delete the threads whose newest run was one of the assistant."""

    delete_threads: bool = False


async def create(call: ApiCall) -> response_types.Assistant:
    """Create an assistant."""
    body: bodies.AssistantBody = call.body
    name, graph = graph_of_assistant(call, body.graph_id)
    identifier = body.assistant_id or str(uuid4())
    if any(identifier in (graph, assistant_id(graph)) for graph in call.server.graphs):
        raise Conflict(f"assistant {identifier!r} exists already")
    now = moment()
    first = VersionOfAssistant(
        version=1,
        graph_id=name,
        name=body.name or "Untitled",
        description=body.description,
        config=_config(body.config),
        context=body.context or {},
        metadata={**(body.metadata or {}), **call.wanted},
        created_at=now,
    )
    first.note = settings_note(graph, msgspec.structs.asdict(first))
    made = StoredAssistant(identifier, 1, [first], now, now)
    known = await call.server.assistants.make(made)
    if known is None:
        return assistant_response(call, made)
    mine = await is_allowed(call, known, "assistants.read")
    if body.if_exists == "raise" or not mine:
        raise Conflict(f"assistant {identifier!r} exists already")
    return assistant_response(call, known)


def _config(config: bodies.ConfigBody | None) -> dict[str, Any]:
    given = msgspec.to_builtins(config or bodies.ConfigBody())
    return {key: value for key, value in given.items() if value is not None}


async def update(call: ApiCall) -> response_types.Assistant:
    """Make a new version of an assistant, which runs use from now on."""
    body: bodies.AssistantPatch = call.body
    known = await assistant_of(call, call.path["assistant_id"], "assistants.update")
    check_changeable(known)
    changes: dict[str, Any] = {}
    if body.graph_id is not None:
        changes["graph_id"] = graph_of_assistant(call, body.graph_id)[0]
    if body.config is not None:
        changes["config"] = _config(body.config)
    for name in ("context", "name"):
        if (value := getattr(body, name)) is not None:
            changes[name] = value
    if body.description is not UNSET:
        changes["description"] = body.description
    changes["note"] = _note_of(call, known.now, changes)
    said = {**(body.metadata or {}), **call.wanted}
    will_be = {**known.now.metadata, **said}  # authorized too: it may not move to another tenant
    ask = call.server.access.ask
    wanted = await ask(call.principal, "assistants.update", None, will_be)

    def check(made: VersionOfAssistant, before: VersionOfAssistant) -> None:
        as_dict, what = msgspec.structs.asdict, f"a version of assistant {known.assistant_id!r}"
        check_merged(as_dict(made), as_dict(before), call.server.limits, what)

    made = await call.server.assistants.add_version(
        known.assistant_id, changes, {**said, **wanted}, check
    )
    return assistant_response(call, made)


def _note_of(call: ApiCall, before: VersionOfAssistant, changes: dict[str, Any]) -> dict[str, Any]:
    """Make the note of a new version: what it has of the one before was of that one's graph."""
    made = {**msgspec.structs.asdict(before), **changes}
    new = settings_note(call.server.graphs[made["graph_id"]], made)
    about = {"context": "context", "configurable": "config"}
    whole = "graph_id" in changes
    return {
        name: new[name] if whole or field in changes else before.note.get(name, {})
        for name, field in about.items()
        if name in (new if whole or field in changes else before.note)
    }


async def use_version(call: ApiCall) -> response_types.Assistant:
    """Let an assistant's runs use one of its versions."""
    known = await assistant_of(call, call.path["assistant_id"], "assistants.update")
    version: int = call.body.version
    if known.system and version == known.latest:
        return assistant_response(call, known)
    check_changeable(known)
    for one in known.versions:
        if one.version == version and not contains(one.metadata, call.wanted):
            raise missing(known.assistant_id)
        if one.version == version and one.graph_id not in call.graphs:
            raise Unprocessable(f"version {version} is of a graph that isn't registered any more")
    made = await call.server.assistants.use_version(known.assistant_id, version)
    return assistant_response(call, made)


async def versions(call: ApiCall) -> list[response_types.AssistantVersion]:
    """List the versions of an assistant, newest first."""
    body: bodies.VersionSearch = call.body
    known = await assistant_of(call, call.path["assistant_id"])
    found = [
        version_response(call, known, one)
        for one in reversed(known.versions)
        if contains(
            one.metadata, {**(body.metadata or {}), **({} if known.system else call.wanted)}
        )
    ]
    return found[body.offset : body.offset + body.limit]


async def delete(call: ApiCall) -> None:
    """Delete an assistant with its versions and crons; its threads only if asked for."""
    server, identifier = call.server, call.path["assistant_id"]
    # One that can't be read has no metadata: who may delete those of all metadata may remove it.
    if call.wanted or not await server.assistants.is_unreadable(identifier):
        known = await assistant_of(call, identifier, "assistants.delete")
        check_changeable(known)
        identifier = known.assistant_id
    await server.assistants.remove(identifier)
    await server.crons.remove_of(assistant_id=identifier)
    if call.query.delete_threads:
        for thread in await server.threads.all({"assistant_id": identifier}):
            if await server.access.allows(call.principal, "threads.delete", thread):
                await remove_thread(server, thread.thread_id)


_A = "/assistants/{assistant_id}"
ENDPOINTS = (
    Endpoint(
        "POST",
        "/assistants",
        "assistants.create",
        create,
        response_types.Assistant,
        bodies.AssistantBody,
        summary="Create an assistant",
    ),
    Endpoint(
        "PATCH",
        _A,
        "assistants.update",
        update,
        response_types.Assistant,
        bodies.AssistantPatch,
        summary="Change an assistant",
    ),
    Endpoint(
        "DELETE",
        _A,
        "assistants.delete",
        delete,
        query=DeleteQuery,
        summary="Delete an assistant",
    ),
    Endpoint(
        "POST",
        _A + "/versions",
        "assistants.read",
        versions,
        list[response_types.AssistantVersion],
        bodies.VersionSearch,
        summary="List the versions of an assistant",
    ),
    Endpoint(
        "POST",
        _A + "/latest",
        "assistants.update",
        use_version,
        response_types.Assistant,
        bodies.AssistantLatest,
        summary="Choose the version of an assistant",
    ),
)
