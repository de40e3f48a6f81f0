"""Routes for assistants: each registered graph is one, and no others can be created."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.thread_finder import assistant_id
from actorgraph.web import bodies, response_types
from actorgraph.web.access import contains
from actorgraph.web.endpoint import ApiCall, Endpoint, graph_of_assistant
from actorgraph.web.problems import NotFound
from actorgraph.web.selection import page_response

_MADE_BY = {"created_by": "system"}
_BEGINNING = "1970-01-01T00:00:00+00:00"


class GraphQuery(Struct):
    """Levels of subgraphs to draw: a number, or true for all."""

    xray: str = "false"


class SubgraphsQuery(Struct):
    """Whether to include subgraphs of subgraphs."""

    recurse: bool = False


async def search(call: ApiCall) -> Response:
    """List the registered graphs."""
    body: bodies.AssistantSearch = call.body
    found = _found(call, body)[body.offset :]
    return page_response(found, limit=body.limit, offset=body.offset, select=body.select)


async def count(call: ApiCall) -> int:
    """Count the assistants that a search would find."""
    return len(_found(call, call.body))


async def read(call: ApiCall) -> response_types.Assistant:
    """Return one assistant."""
    return _assistant(graph_of_assistant(call, call.path["assistant_id"])[0])


async def draw(call: ApiCall) -> Any:
    """Return the graph as nodes and edges."""
    text = call.query.xray.lower()
    xray = int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else text == "true"
    _, graph = graph_of_assistant(call, call.path["assistant_id"])
    return graph.get_graph(xray=xray).to_json()


async def schemas(call: ApiCall) -> response_types.Schemas:
    """Return the JSON schemas of a graph."""
    name, graph = graph_of_assistant(call, call.path["assistant_id"])
    return _schemas(name, graph)


async def subgraphs(call: ApiCall) -> dict[str, response_types.Schemas]:
    """Return the schemas of a graph's subgraphs, by namespace."""
    _, graph = graph_of_assistant(call, call.path["assistant_id"])
    return {name: _schemas(name, inner) for name, inner in _subgraphs_of(graph, call)}


async def subgraphs_at(call: ApiCall) -> dict[str, response_types.Schemas]:
    """Return the schemas of the subgraph at a namespace."""
    _, graph = graph_of_assistant(call, call.path["assistant_id"])
    wanted = call.path["namespace"]
    found = [inner for name, inner in graph.get_subgraphs(recurse=True) if name == wanted]
    if not found:
        raise NotFound(f"subgraph {wanted!r} not found")
    return {wanted: _schemas(wanted, found[0])}


def _subgraphs_of(graph: CompiledStateGraph, call: ApiCall) -> Any:
    return graph.get_subgraphs(recurse=call.query.recurse)


def _found(
    call: ApiCall, body: bodies.AssistantSearch | bodies.AssistantCount
) -> list[response_types.Assistant]:
    known = (_assistant(name) for name in call.graphs)
    return [
        one
        for one in known
        if body.graph_id in (None, one.graph_id)
        and (body.name is None or body.name.lower() in one.name.lower())
        and contains(one.metadata, body.metadata or {})
    ]


def _assistant(name: str) -> response_types.Assistant:
    return response_types.Assistant(
        assistant_id=assistant_id(name),
        graph_id=name,
        name=name,
        description=None,
        config={},
        context={},
        metadata=_MADE_BY,
        version=1,
        created_at=_BEGINNING,
        updated_at=_BEGINNING,
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
        list[response_types.Assistant],
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
