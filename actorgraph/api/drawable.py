"""DrawableGraph: the result of `get_graph()`, with LangGraph's drawing methods."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actorgraph.api.raster import png_of
from actorgraph.plan.drawing import svg
from actorgraph.plan.drawing.ascii import ascii_art
from actorgraph.plan.drawing.mermaid import mermaid
from actorgraph.plan.drawing.shape import GraphShape


class DrawableGraph(GraphShape):
    """A graph as a drawing, which a notebook shows as a picture.

    Attributes:
        nodes: by id.
        edges: a list.
    """

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: Any = "linear",
        node_colors: Any = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
    ) -> str:
        """Return Mermaid text, for Markdown pages and Mermaid's own tools.

        Args:
            with_styles: include settings, one line per node, and style classes; default True.
            curve_style: Mermaid's curve of edges: "linear", "basis", ..., or an enum of these.
            node_colors: CSS per class, as a mapping or an object with the keys "default",
                "first" and "last".
            wrap_label_n_words: words per line of an edge's label.
            frontmatter_config: Mermaid settings, merged over the built-in ones.
        """
        return mermaid(
            self,
            with_styles=with_styles,
            curve=str(getattr(curve_style, "value", curve_style)),
            styles=_styles(node_colors),
            wrap_label_n_words=wrap_label_n_words,
            frontmatter=frontmatter_config,
        )

    def draw_ascii(self) -> str:
        """Return the drawing as text, for terminals and tests."""
        return ascii_art(self)

    def print_ascii(self) -> None:
        """Print `draw_ascii()`."""
        print(self.draw_ascii())  # noqa: T201 - its purpose

    def draw_svg(self) -> str:
        """Return the drawing as an SVG document; it needs no other package."""
        return svg.svg(self)

    def draw_png(
        self, output_file_path: str | Path | None = None, fontname: str | None = None
    ) -> bytes:
        """Return the drawing as a PNG picture, two pixels per unit of `draw_svg()`.

        Needs the extra `drawing` (Pillow).

        Args:
            output_file_path: a file to write the picture to as well.
            fontname: the file of a TrueType font, for scripts that Pillow's own font lacks.
        Raises:
            MissingExtraError: Pillow isn't installed.
        """
        return _written(png_of(self, fontname=fontname), output_file_path)

    def draw_mermaid_png(
        self,
        *,
        output_file_path: str | Path | None = None,
        background_color: str | None = "white",
        padding: int = 10,
        **options: Any,
    ) -> bytes:
        """Return the drawing as a PNG picture, with the name and arguments of LangGraph.

        Args:
            output_file_path: a file to write the picture to as well.
            background_color: a colour's name or "#rrggbb"; None for a transparent picture.
            padding: free space around the drawing, in pixels.
            options: ignored; LangGraph's settings of its web service.
        Raises:
            MissingExtraError: Pillow isn't installed.
        """
        picture = png_of(self, background=background_color, padding=padding)
        return _written(picture, output_file_path)

    def _repr_svg_(self) -> str:
        return self.draw_svg()


def _written(picture: bytes, path: str | Path | None) -> bytes:
    if path is not None:
        Path(path).write_bytes(picture)
    return picture


def _styles(colors: Any) -> dict[str, str]:
    if colors is None or isinstance(colors, Mapping):
        return dict(colors or {})
    return {key: getattr(colors, key) for key in ("default", "first", "last")}
