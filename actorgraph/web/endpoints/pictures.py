"""Routes for the picture of an assistant's graph, and for its topology with a report."""

from typing import Any

from msgspec import Struct
from starlette.responses import Response

from actorgraph.web.endpoints.assistants import levels_of, requested_graph
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint


class PictureQuery(Struct):
    """Levels of subgraphs to draw: a number, or true for all; whether to include a style sheet."""

    xray: str = "false"
    style: bool = True


async def picture(call: ApiCall) -> Response:
    """Return the graph as an SVG document."""
    _, graph = await requested_graph(call)
    text = graph.get_graph(xray=levels_of(call.query.xray)).draw_svg(style=call.query.style)
    # Opened as a page of its own, a document of this media type could run scripts.
    rules = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return Response(text, media_type="image/svg+xml", headers=rules)


async def topology(call: ApiCall) -> dict[str, Any]:
    """Return the graph's nodes, edges, joins and routers, with a report of likely mistakes."""
    _, graph = await requested_graph(call)
    return graph.topology()


ENDPOINTS = (
    Endpoint(
        "GET",
        "/assistants/{assistant_id}/graph.svg",
        "assistants.read",
        picture,
        str,
        query=PictureQuery,
        media="image/svg+xml",
        summary="Get a picture of an assistant's graph",
    ),
    Endpoint(
        "GET",
        "/assistants/{assistant_id}/topology",
        "assistants.read",
        topology,
        dict[str, Any],
        summary="Get the topology of an assistant's graph with a report",
    ),
)
