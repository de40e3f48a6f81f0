"""Draw a compiled graph and export its topology. Neither calls a node."""

from typing import TYPE_CHECKING, Any

from actorgraph.api.compiled import CompiledBase, Config

if TYPE_CHECKING:  # few programs draw
    from actorgraph.api.drawable import DrawableGraph


class DrawingMethods(CompiledBase):
    """`get_graph` and `topology`."""

    def get_graph(
        self, config: Config | None = None, *, xray: bool | int = False
    ) -> "DrawableGraph":
        """Return the graph as a drawing: Mermaid, ASCII, SVG, PNG, JSON.

        Args:
            config: ignored; accepted for LangGraph's programs.
            xray: whether to expand nodes that are compiled graphs, or whose function refers to
                one; a number: the levels to expand.
        """
        from actorgraph.api.drawable import DrawableGraph
        from actorgraph.plan.drawing.shape import shape_of, with_inside

        shape = shape_of(self.plan)
        if xray:
            deeper = xray if isinstance(xray, bool) or xray <= 0 else xray - 1
            graphs = {n: g for n, g in self.subgraphs.items() if isinstance(g, DrawingMethods)}
            insides = {n: g.get_graph(config, xray=deeper) for n, g in graphs.items()}
            shape = with_inside(shape, insides)
        return DrawableGraph(shape.nodes, shape.edges)

    async def aget_graph(
        self, config: Config | None = None, *, xray: bool | int = False
    ) -> "DrawableGraph":
        """Async version of `get_graph`; it does not wait for anything."""
        return self.get_graph(config, xray=xray)

    def topology(self) -> dict[str, Any]:
        """Return the graph as JSON data in a stable order, with a report about its wiring.

        Returns: `name`, `graph_id`, `nodes`, `edges`, `joins`, and `report`: a list of
            `{"code", "node", "what", "do"}`, empty if no problem was found. Codes:
            "unreachable", "join_never_completes", "join_of_alternatives", "no_way_to_end",
            "open_route".
        """
        from actorgraph.plan.drawing.topology import topology_of

        return topology_of(self.plan)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        drawing = self.get_graph()
        return {
            "text/plain": repr(self),
            "text/vnd.mermaid": drawing.draw_mermaid(),
            "image/svg+xml": drawing.draw_svg(),
        }
