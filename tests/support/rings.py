"""The rings of actorgraph/: who needs whom, from the nucleus outward; their files and lines.

    python -m tests.support.rings            # prints a Markdown table
    python -m tests.support.rings --tree DIR # of another tree, divided as this one is

A ring imports only itself and rings inside of it: so a program that uses graphs in memory or in
SQLite depends on the nucleus alone, and no change of an outer ring can break it. Layers
(`tests/test_layers.py`) order what a file is made of; rings order what the product is made of.
`tests/test_rings.py` holds both this order and the port between the rings.

Code lines are those that are neither blank, nor a comment, nor part of a docstring.
"""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.house import Tree, imports_of, module_name
from tests.support.source_files import ROOT, Source, call_name, sources

RINGS: dict[str, set[str]] = {
    "nucleus": {
        *("errors", "values", "messages", "channels", "plan", "superstep", "drawing", "ports"),
        *(
            "bridging",
            "rules",
            "codec",
            "loops",
            "storage",
            "runtime",
            "savers",
            "stores",
            "caches",
            "api",
        ),
    },
    "systems": {"rules.system", "runtime.system", "api.system", "api.system_metrics", "dispatch"},
    "other savers": {
        *("savers.jsonl", "savers.postgres", "storage.postgres", "stores.postgres"),
        *("api.savers.jsonl", "api.savers.postgres", "api.system.sharded", "dispatch.pgqueuer"),
        *("savers.foreign", "api.savers.foreign"),
    },
    "server and studio": {"web", "studio"},
    "tools": {"prebuilt", "sessions", "migrate", "testing", "cli", "__main__"},
    "bridges": {"bridges", "compat"},
}
"""Ring -> its packages and modules, the innermost ring first. The longest name decides."""

DOORS = {
    *("", "types", "graph", "functional", "streams", "checkpoints", "systems"),
    *("stores", "dispatch", "internals"),
}
"""Modules that only re-export, for any ring: their names belong to where they are defined."""

HOOKS = {
    ("api.savers.adapt", "api.savers.foreign"): "for a graph that is given a saver of LangGraph's",
}
"""Imports outward, by the text of a name and at use only: who, of what -> when."""


class Size(NamedTuple):
    """What a ring has: files, and lines of code in them."""

    files: int
    lines: int


def below_root(module: str) -> str:
    """`actorgraph.savers.judge` -> `savers.judge`; the root is the empty name."""
    return module.removeprefix("actorgraph").removeprefix(".")


@cache
def ring_of(module: str) -> int:
    """The number of a module's ring: `actorgraph.savers.judge` -> 0.

    Raises:
        KeyError: no ring has it.
    """
    parts = below_root(module).split(".")
    names = {name: number for number, ring in enumerate(RINGS.values()) for name in ring}
    whole = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    for name in whole:
        if name in names:
            return names[name]
    raise KeyError(f"{module} is in no ring of tests/support/rings.py")


def imported(source: Source) -> Iterator[tuple[int, str, str]]:
    """Each import of a file: its line, the module, and the name in it, if it names one."""
    for node in source.nodes(ast.Import, ast.ImportFrom, ast.Call):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name, "") for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from ((node.lineno, module, name.name) for name in names)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if call_name(node).endswith(
                ("import_module", "__import__")
            ):
                yield node.lineno, name, ""


@cache
def modules() -> frozenset[str]:
    """The modules of actorgraph/."""
    return frozenset(module_of(source) for source in sources("actorgraph"))


def module_of(source: Source) -> str:
    """`actorgraph/savers/judge.py` -> `actorgraph.savers.judge`."""
    return module_name(source.path.removeprefix("actorgraph/"))


@cache
def homes(door: str) -> dict[str, str]:
    """Where a door has its names from: name -> module."""
    path = "actorgraph/" + door.replace(".", "/")
    files = {file.path: file for file in sources("actorgraph")}
    door_file = files.get(f"{path}.py") or files[f"{path}/__init__.py".replace("//", "/")]
    return {
        alias.asname or alias.name: node.module or ""
        for node in door_file.nodes(ast.ImportFrom)
        for alias in node.names
    }


def home(module: str, name: str) -> str:
    """The module that an import reaches: behind a door the one that defines the name."""
    if name and f"{module}.{name}" in modules():
        return f"{module}.{name}"
    if name and below_root(module) in DOORS:
        return homes(below_root(module)).get(name, module)
    return module


def outward(source: Source) -> Iterator[tuple[int, str]]:
    """Imports of a ring outside of the file's own; a door and the root may name any ring."""
    here = module_of(source)
    if below_root(here) in DOORS:
        return
    names = list(RINGS)
    for line, module, name in imported(source):
        if module.split(".")[0] != "actorgraph":
            continue
        there = home(module, name)
        if (below_root(here), below_root(there)) in HOOKS or below_root(there) in DOORS:
            continue
        if ring_of(there) > ring_of(here):
            yield line, f"{names[ring_of(here)]} imports {there} of {names[ring_of(there)]}"


def code_lines(text: str) -> int:
    """Count the lines with code: no blank ones, comments or docstrings."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    skipped |= {tokenize.ENCODING, tokenize.ENDMARKER}
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            used.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                used -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(used)


def sizes(package: Path) -> dict[str, Size]:
    """Ring -> its size in a tree; a door counts to the nucleus."""
    found = {ring: Size(0, 0) for ring in RINGS}
    names = list(RINGS)
    for file in sorted(package.rglob("*.py")):
        module = module_name(file.relative_to(package).as_posix())
        door = below_root(module) in DOORS
        ring = names[0 if door else ring_of(module)]
        lines = code_lines(file.read_text("utf-8"))
        found[ring] = Size(found[ring].files + 1, found[ring].lines + lines)
    return found


SMALLEST = ("api.graph.state_graph", "api.graph.compiled", "api.savers.hosted", "api.savers.sqlite")
"""Modules of a program of graphs, with savers in memory and over SQLite."""


def needed(package: Path) -> Size:
    """What such a program loads, or may load: these modules, and all that they import."""
    tree = Tree.read(package)
    graph = imports_of(tree)
    seen: set[str] = set()
    left = [f"actorgraph.{name}" for name in SMALLEST]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += graph[name]
    texts = [text for path, text in tree.texts.items() if module_name(path) in seen]
    return Size(len(texts), sum(map(code_lines, texts)))


def table(package: Path) -> str:
    """A row per ring, one for all of them, and one for the smallest program."""
    found = sizes(package)
    small = needed(package)
    whole = Size(sum(s.files for s in found.values()), sum(s.lines for s in found.values()))
    rows = [f"| {name} | {size.files} | {size.lines:,} |" for name, size in found.items()]
    head = ["| ring | files | lines of code |", "|---|---|---|"]
    last = f"| imported by a program of graphs over SQLite | {small.files} | {small.lines:,} |"
    return "\n".join([*head, *rows, f"| all | {whole.files} | {whole.lines:,} |", last])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT)
    print(table(parser.parse_args().tree / "actorgraph"))


if __name__ == "__main__":
    main()
