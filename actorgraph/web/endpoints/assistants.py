"""Routes that find and describe assistants: registered graphs, and stored ones."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from actorgraph.graph import CompiledStateGraph
from actorgraph.web.endpoints.assistant_lookup import assistant_of, is_allowed
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import NotFound
from actorgraph.web.http.selection import page_response
from actorgraph.web.registries.assistant_registry import (
    StoredAssistant,
    VersionOfAssistant,
    of_graph,
)
from actorgraph.web.registries.stored_bodies import shown_context


class GraphQuery(Struct):
    """Levels of subgraphs to draw: a number, or true for all."""

    xray: str = "false"


class SubgraphsQuery(Struct):
    """Whether to include subgraphs of subgraphs."""

    recurse: bool = False


async def search(call: ApiCall) -> Response:
    """List assistants: the registered graphs, and those that were created."""
    body: bodies.AssistantSearch = call.body
    rest = (await _sorted(call, body))[body.offset :]
    return await page_response(rest, limit=body.limit, offset=body.offset, select=body.select)


async def found_page(call: ApiCall, body: bodies.AssistantSearch) -> list[response_types.Assistant]:
    """Return the page of assistants that a search asks for."""
    return (await _sorted(call, body))[body.offset : body.offset + body.limit]


async def _sorted(call: ApiCall, body: bodies.AssistantSearch) -> list[response_types.Assistant]:
    found = await _found(call, body)
    if body.sort_by is not None:
        key = body.sort_by
        found.sort(key=lambda one: str(getattr(one, key)), reverse=body.sort_order == "desc")
    return found


async def count(call: ApiCall) -> int:
    """Count the assistants that a search would find."""
    return len(await _found(call, call.body))


async def read(call: ApiCall) -> response_types.Assistant:
    """Return one assistant."""
    return assistant_response(call, await assistant_of(call, call.path["assistant_id"]))


async def draw(call: ApiCall) -> Any:
    """Return the graph as nodes and edges."""
    _, graph = await requested_graph(call)
    return graph.get_graph(xray=levels_of(call.query.xray)).to_json()


def levels_of(text: str) -> int | bool:
    """Read the levels of subgraphs to open: a number below 1,000, or "true" for all."""
    text = text.lower()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else text == "true"


async def schemas(call: ApiCall) -> response_types.Schemas:
    """Return the JSON schemas of a graph."""
    name, graph = await requested_graph(call)
    return _schemas(name, graph)


async def subgraphs(call: ApiCall) -> dict[str, response_types.Schemas]:
    """Return the schemas of a graph's subgraphs, by namespace."""
    _, graph = await requested_graph(call)
    return {name: _schemas(name, inner) for name, inner in _subgraphs_of(graph, call)}


async def subgraphs_at(call: ApiCall) -> dict[str, response_types.Schemas]:
    """Return the schemas of the subgraph at a namespace."""
    _, graph = await requested_graph(call)
    wanted = call.path["namespace"]
    found = [inner for name, inner in graph.get_subgraphs(recurse=True) if name == wanted]
    if not found:
        raise NotFound(f"subgraph {wanted!r} not found")
    return {wanted: _schemas(wanted, found[0])}


def _subgraphs_of(graph: CompiledStateGraph, call: ApiCall) -> Any:
    return graph.get_subgraphs(recurse=call.query.recurse)


async def requested_graph(call: ApiCall) -> tuple[str, CompiledStateGraph]:
    """Return name and graph of the assistant that the path names."""
    name = (await assistant_of(call, call.path["assistant_id"])).now.graph_id
    return name, call.graphs[name]


async def _found(
    call: ApiCall, body: bodies.AssistantSearch | bodies.AssistantCount
) -> list[response_types.Assistant]:
    stored = [
        one
        for one in await call.server.assistants.all()
        if contains(one.now.metadata, call.wanted)
        and await is_allowed(call, one, "assistants.read")
    ]
    known = [assistant_response(call, one) for one in (*map(of_graph, call.graphs), *stored)]
    return [
        one
        for one in known
        if body.graph_id in (None, one.graph_id)
        and (body.name is None or body.name.lower() in one.name.lower())
        and contains(one.metadata, body.metadata or {})
    ]


def assistant_response(call: ApiCall, known: StoredAssistant) -> response_types.Assistant:
    """Return an assistant for clients, with the version that runs use."""
    shown = version_response(call, known, known.now)
    fields = {name: getattr(shown, name) for name in shown.__struct_fields__}
    fields["created_at"] = known.created_at
    return response_types.Assistant(**fields, updated_at=known.updated_at)


def version_response(
    call: ApiCall, known: StoredAssistant, version: VersionOfAssistant
) -> response_types.AssistantVersion:
    """Return one version of an assistant for clients, its context up to date."""
    graph = call.server.graphs.get(version.graph_id)
    return response_types.AssistantVersion(
        assistant_id=known.assistant_id,
        graph_id=version.graph_id,
        name=version.name,
        description=version.description,
        config=version.config,
        context=shown_context(graph, {"context": version.context}, version.note),
        metadata=version.metadata,
        version=version.version,
        created_at=version.created_at,
    )


def _schemas(name: str, graph: Any) -> response_types.Schemas:
    return response_types.Schemas(
        graph_id=name,
        input_schema=_schema(graph.get_input_jsonschema),
        output_schema=_schema(graph.get_output_jsonschema),
        state_schema=_schema(graph.get_state_jsonschema),
        config_schema=None,
        context_schema=_schema(graph.get_context_jsonschema),
    )


def _schema(get: Any) -> Any:
    """Call the getter of a schema; None for types without one."""
    try:
        return get()
    except (TypeError, ValueError):
        return None


_A = "/assistants/{assistant_id}"
ENDPOINTS = (
    Endpoint(
        "POST",
        "/assistants/search",
        "assistants.read",
        search,
        list[response_types.FoundAssistant],
        bodies.AssistantSearch,
        summary="Find assistants",
    ),
    Endpoint(
        "POST",
        "/assistants/count",
        "assistants.read",
        count,
        int,
        bodies.AssistantCount,
        summary="Count assistants",
    ),
    Endpoint(
        "GET", _A, "assistants.read", read, response_types.Assistant, summary="Get an assistant"
    ),
    Endpoint(
        "GET",
        _A + "/graph",
        "assistants.read",
        draw,
        response_types.Graph,
        query=GraphQuery,
        summary="Get an assistant's graph",
    ),
    Endpoint(
        "GET",
        _A + "/schemas",
        "assistants.read",
        schemas,
        response_types.Schemas,
        summary="Get an assistant's schemas",
    ),
    Endpoint(
        "GET",
        _A + "/subgraphs",
        "assistants.read",
        subgraphs,
        dict[str, response_types.Schemas],
        query=SubgraphsQuery,
        summary="Get an assistant's subgraphs",
    ),
    Endpoint(
        "GET",
        _A + "/subgraphs/{namespace}",
        "assistants.read",
        subgraphs_at,
        dict[str, response_types.Schemas],
        query=SubgraphsQuery,
        summary="Get one subgraph of an assistant",
    ),
)
