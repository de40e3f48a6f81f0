"""A graph as Mermaid: line for line the text that LangGraph writes for the same graph."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from actorgraph.drawing.shape import DrawnEdge, DrawnNode, GraphShape

STYLES = {
    "default": "fill:#f2f0ff,line-height:1.2",
    "first": "fill-opacity:0",
    "last": "fill:#bfb6fc",
}
ESCAPES = {ord(mark): f"#{ord(mark)};" for mark in "#[](){}<>|"} | {ord('"'): "#quot;"}
MARKDOWN = tuple("*_`")
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")


def mermaid(
    shape: GraphShape,
    *,
    with_styles: bool = True,
    curve: str = "linear",
    styles: Mapping[str, str] | None = None,
    wrap_label_n_words: int = 9,
    frontmatter: Mapping[str, Any] | None = None,
) -> str:
    """Make the Mermaid text of a drawing.

    Args:
        with_styles: write the settings, each node's own line, and the classes of nodes.
        curve: Mermaid's name of the curve of edges.
        styles: class ("default", "first", "last") -> CSS; missing classes keep their defaults.
        wrap_label_n_words: words of an edge's label per line.
        frontmatter: settings to write before the graph; `config` is merged with ours.
    """
    lines = ["graph TD;"]
    if with_styles:
        lines = ["---", *_yaml(_settings(frontmatter or {}, curve)), "---", *lines]
    lines += _Text(shape, with_styles=with_styles, words=wrap_label_n_words).cluster("")
    if with_styles:
        classes = STYLES | dict(styles or {})
        lines += [f"\tclassDef {name} {style}" for name, style in classes.items()]
    return "\n".join(lines) + "\n"


class _Text:
    """Makes the lines of a drawing, cluster by cluster; a cluster is an expanded subgraph."""

    def __init__(self, shape: GraphShape, *, with_styles: bool, words: int) -> None:
        self.shape = shape
        self.with_styles = with_styles
        self.words = words
        self.titles: set[str] = set()
        first, last = shape.first_node(), shape.last_node()
        self.classes = {
            **({first.id: "first"} if first else {}),
            **({last.id: "last"} if last else {}),
        }

    def cluster(self, prefix: str) -> Iterator[str]:
        if self.with_styles:
            own = [n for n in self.shape.nodes.values() if _parent(n.id) == prefix]
            yield from map(self.node, own)
        inner: dict[str, DrawnEdge | None] = {}  # in order of appearance: edge to itself, cluster
        for edge in self.shape.edges:
            home = _home(edge)
            if edge.source == edge.target and home == prefix:
                inner[edge.source] = edge
            elif home == prefix:
                yield self.edge(edge)
            elif below := _step(home, prefix):
                inner.setdefault(below, None)
        if self.with_styles:
            for node in self.shape.nodes:
                if below := _step(_parent(node), prefix):
                    inner.setdefault(below, None)
        for name, loop in inner.items():
            yield from [self.edge(loop)] if loop else self.opened(name)

    def opened(self, prefix: str) -> Iterator[str]:
        title = prefix.rsplit(":", 1)[-1]
        # Mermaid identifies clusters by title; a repeated title gets its path as its id.
        head = title if title not in self.titles else f"{safe_id(prefix)} [{_label(title)}]"
        self.titles.add(title)
        yield f"\tsubgraph {head}"
        yield from self.cluster(prefix)
        yield "\tend"

    def node(self, node: DrawnNode) -> str:
        label = _label(node.name)
        if node.name.startswith(MARKDOWN) and node.name.endswith(MARKDOWN):
            label = f"<p>{label}</p>"  # else Mermaid reads it as emphasis
        if notes := [*_notes(node.metadata or {})]:
            label = f"{label}<hr/><small><em>" + "\n".join(notes) + "</em></small>"
        kind = self.classes.get(node.id)
        text = f"([{label}]):::{kind}" if kind else f"({label})"
        return f"\t{safe_id(node.id)}{text}"

    def edge(self, edge: DrawnEdge) -> str:
        source, target = safe_id(edge.source), safe_id(edge.target)
        if edge.data is None:
            return f"\t{source} {'-.->' if edge.conditional else '-->'} {target};"
        words = edge.data.split()
        text = edge.data
        if len(words) > self.words:
            starts = range(0, len(words), self.words)
            text = "&nbsp<br>&nbsp".join(" ".join(words[i : i + self.words]) for i in starts)
        opening, closing = ("-.", ".->") if edge.conditional else ("--", "-->")
        return f"\t{source} {opening} &nbsp;{text}&nbsp; {closing} {target};"


def safe_id(name: str) -> str:
    """Make a Mermaid id of a name: characters except letters, digits and `_-` as hex codes."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c in "_-") else f"\\{ord(c):x}" for c in name
    )


def _parent(name: str) -> str:
    return name.rpartition(":")[0]


def _home(edge: DrawnEdge) -> str:
    """Find the innermost cluster that holds both ends."""
    shared: list[str] = []
    for one, other in zip(
        _parent(edge.source).split(":"), _parent(edge.target).split(":"), strict=False
    ):
        if one != other:
            break
        shared.append(one)
    return ":".join(shared)


def _step(home: str, prefix: str) -> str | None:
    """Find the cluster one level below `prefix` on the way to `home`."""
    start = f"{prefix}:" if prefix else ""
    if home == prefix or not home.startswith(start):
        return None
    return start + home[len(start) :].split(":", 1)[0]


def _label(text: str) -> str:
    return text.translate(ESCAPES)


def _notes(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per value that is a scalar, or a list of scalars."""
    scalar = (str, int, float, bool)
    for key, value in metadata.items():
        if isinstance(value, scalar):
            yield _label(f"{key} = {value}")
        elif isinstance(value, list | tuple | set | frozenset):
            items = cast("Sequence[Any]", value)
            if all(isinstance(item, scalar) for item in items):
                texts = [str(item) for item in items]
                many = isinstance(value, set | frozenset)
                yield _label(f"{key} = {', '.join(sorted(texts) if many else texts)}")


def _settings(given: Mapping[str, Any], curve: str) -> dict[str, Any]:
    config = dict(given.get("config", {}))
    return {
        **given,
        "config": config | {"flowchart": {**config.get("flowchart", {}), "curve": curve}},
    }


def _yaml(settings: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield nested settings as lines of YAML; every JSON value is valid YAML."""
    for key in sorted(settings):
        value = settings[key]
        if isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from _yaml(cast("Mapping[str, Any]", value), indent + "  ")
        else:
            plain = isinstance(value, str) and PLAIN.fullmatch(value)
            yield f"{indent}{key}: {value if plain else json.dumps(value)}"
