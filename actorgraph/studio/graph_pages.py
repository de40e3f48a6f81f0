"""Pages about graphs: the list, and one graph with its drawing, topology and schemas."""

from typing import Any

from starlette.responses import Response

from actorgraph.studio.page_calls import Handler, StudioCall, drawn
from actorgraph.studio.shown import part, whole
from actorgraph.web.http.problems import NotFound

LEVELS = (("0", "Graph alone"), ("1", "Its subgraphs"), ("all", "All levels"))


async def graphs(call: StudioCall) -> Response:
    """List the system's graphs."""
    await call.may("studio.read")
    found = await call.access.visible(call.principal, call.source.graphs)
    rows = [
        {
            "name": name,
            "address": f"{call.root}/graphs/{part(name)}",
            "text": f"{len(graph.nodes)} nodes, {len(graph.channels)} channels",
        }
        for name, graph in sorted(found.items())
    ]
    return call.page("graphs.html", title="Graphs", rows=rows)


async def graph(call: StudioCall) -> Response:
    """Show one graph."""
    await call.may("studio.read")
    name = call.path("name")
    found = (await call.access.visible(call.principal, call.source.graphs)).get(name)
    if found is None:
        raise NotFound(f"graph {name!r} not found")
    xray = call.query.get("xray", "0")
    depth: Any = True if xray == "all" else int(xray) if xray in ("0", "1") else 0
    picture = found.get_graph(xray=depth).draw_svg(style=False)
    schemas = [
        ("Input schema", found.get_input_jsonschema),
        ("Output schema", found.get_output_jsonschema),
        ("State schema", found.get_state_jsonschema),
        ("Context schema", found.get_context_jsonschema),
    ]
    return call.page(
        "graph.html",
        title=name,
        name=name,
        xray=xray,
        levels=LEVELS,
        picture=drawn(picture),
        topology=whole(found.topology()),
        schemas=[(title, text) for title, get in schemas if (text := _schema(get))],
    )


def _schema(get: Any) -> str:
    """Return a schema as text; "" for types without one."""
    try:
        found = get()
    except (TypeError, ValueError):
        return ""
    return whole(found) if found is not None else ""


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/graphs", graphs),
    ("GET", "/graphs/{name}", graph),
)
