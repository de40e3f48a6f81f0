"""`actorgraph graph`: a graph as a picture."""

from pathlib import Path
from typing import Annotated, Any

import typer

from actorgraph.cli.command_group import LOOK, AsJson, group
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.printed import GraphDrawing

SUFFIXES = {".mmd": "mermaid", ".md": "mermaid", ".svg": "svg", ".png": "png", ".txt": "ascii"}


@group.command("graph", rich_help_panel=LOOK)
def draw_graph(
    graph: Annotated[str, typer.Argument(metavar="MODULE:GRAPH", help="app:graph, app.py:graph.")],
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Mermaid text.")] = False,
    svg: Annotated[bool, typer.Option("--svg", help="An SVG picture.")] = False,
    png: Annotated[bool, typer.Option("--png", help="A PNG picture; needs -o.")] = False,
    ascii_: Annotated[bool, typer.Option("--ascii", help="Text; the default.")] = False,
    xray: Annotated[bool, typer.Option("--xray", help="Draw the insides of subgraphs.")] = False,
    path: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A file; its ending says the format too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a graph as text, Mermaid, SVG or PNG.

    Example: actorgraph graph app.py:graph --svg -o graph.svg
    """
    from actorgraph.cli.output import print_json

    flags = {"mermaid": mermaid, "svg": svg, "png": png, "ascii": ascii_}
    drawing = _draw(graph, _format(flags, path), path, xray=xray)
    if as_json:
        print_json(drawing)
    else:
        typer.echo(f"wrote {drawing.path}" if drawing.path else drawing.text)


def _format(flags: dict[str, bool], path: Path | None) -> str:
    chosen = [name for name, given in flags.items() if given]
    if len(chosen) > 1:
        raise UsageError(
            f"{len(chosen)} formats are asked for", do=f"leave one of --{chosen[0]} ..."
        )
    if chosen:
        return chosen[0]
    return SUFFIXES.get("" if path is None else path.suffix, "ascii")


def _draw(name: str, form: str, path: Path | None, *, xray: bool) -> GraphDrawing:
    from actorgraph.cli.places import load_graph

    if form == "png" and path is None:
        raise UsageError("a PNG picture needs a file", do="add -o graph.png")
    drawn = load_graph(name).get_graph(xray=xray)
    if form == "png":
        picture = drawn.draw_png()
    else:
        ways = {"ascii": drawn.draw_ascii, "mermaid": drawn.draw_mermaid, "svg": drawn.draw_svg}
        picture = ways[form]().rstrip("\n").encode()
    kind: Any = form
    if path is None:
        return GraphDrawing(kind, "", picture.decode())
    try:
        path.write_bytes(picture if form == "png" else picture + b"\n")
    except OSError as error:
        raise UsageError(
            f"{str(path)!r} can't be written: {error}", do="name another file"
        ) from error
    return GraphDrawing(kind, str(path))
