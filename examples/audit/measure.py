"""One Python file -> its figures.

Receives   a file's path, or its bytes
Sends      a FileMeasure of plain data, which a saver stores as it is
Invariant  the same bytes give the same figures; a file that can't be read or parsed gives
           figures too, with its `problem` named: one odd file must not stop an audit.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

# A function past one of these is hard to change: it leaves the screen, or the reader's head.
LINES_MAX = 50
BRANCHES_MAX = 10
NESTING_MAX = 4

# Of each file the longest functions are kept, and those that are past a limit.
LONGEST_KEPT = 3

# Larger files are generated data. `ast` needs about a hundred times their size in memory.
FILE_BYTES_MAX = 4_000_000


class FunctionMeasure(TypedDict):
    """One function: where it is, and how much a reader has to hold in mind."""

    name: str
    line: int
    lines: int
    branches: int
    nesting: int


class FileMeasure(TypedDict):
    """One file. `code` counts lines that are neither blank nor only a comment."""

    file: str
    lines: int
    code: int
    classes: int
    functions: int
    branches: int
    nesting: int
    public: int
    undocumented: int
    notable: list[FunctionMeasure]
    problem: str


Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
NESTS = (ast.If, *LOOPS, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
# Each of these is one more path through a function.
BRANCHES = (ast.If, ast.IfExp, *LOOPS, ast.ExceptHandler, ast.match_case, ast.comprehension)


def measure_file(path: Path, name: str) -> FileMeasure:
    """Read and measure one file.

    Args:
        path: where it is now.
        name: what reports call it; the same wherever the file is.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            return empty_measure(name, f"larger than {FILE_BYTES_MAX:,} bytes")
        source = path.read_bytes()
    except OSError as error:
        # Not `str(error)`: it holds the path, which differs from machine to machine.
        return empty_measure(name, f"unreadable: {error.strerror}")
    return measure_source(source, name)


def measure_source(source: bytes, name: str) -> FileMeasure:
    """Measure the bytes of one file. `ast` finds their encoding."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        # Bytes in the wrong encoding end here too, without a line.
        line = f"line {error.lineno}: " if error.lineno else ""
        return empty_measure(name, f"not parsed: {line}{error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return empty_measure(name, f"not parsed: {type(error).__name__}")
    return _figures(tree, source.splitlines(), name)


def empty_measure(name: str, problem: str) -> FileMeasure:
    """The figures of a file of which only the problem is known."""
    counts = _Counts()
    return FileMeasure(
        file=name,
        lines=0,
        code=0,
        classes=counts.classes,
        functions=0,
        branches=counts.branches,
        nesting=counts.nesting,
        public=counts.public,
        undocumented=counts.undocumented,
        notable=[],
        problem=problem,
    )


def _figures(tree: ast.Module, lines: list[bytes], name: str) -> FileMeasure:
    counts = _count(tree)
    stripped = (line.strip() for line in lines)
    return FileMeasure(
        file=name,
        lines=len(lines),
        code=sum(1 for line in stripped if line and not line.startswith(b"#")),
        classes=counts.classes,
        functions=len(counts.functions),
        branches=counts.branches,
        nesting=counts.nesting,
        public=counts.public,
        undocumented=counts.undocumented,
        notable=_notable([function.measure() for function in counts.functions]),
        problem="",
    )


def _notable(functions: list[FunctionMeasure]) -> list[FunctionMeasure]:
    """The longest functions and those past a limit, in the order of the file."""
    longest = sorted(functions, key=lambda f: (-f["lines"], f["line"], f["name"]))[:LONGEST_KEPT]
    kept = [f for f in functions if f in longest or past_a_limit(f)]
    return sorted(kept, key=lambda f: (f["line"], f["name"]))


def past_a_limit(function: FunctionMeasure) -> bool:
    """Whether a function is longer, or has more branches, or nests deeper, than it should."""
    return (
        function["lines"] > LINES_MAX
        or function["branches"] > BRANCHES_MAX
        or function["nesting"] > NESTING_MAX
    )


@dataclass(slots=True)
class _Counted:
    """A function while its body is being walked."""

    name: str
    node: Function
    branches: int = 0
    nesting: int = 0

    def measure(self) -> FunctionMeasure:
        first, last = self.node.lineno, self.node.end_lineno or self.node.lineno
        return FunctionMeasure(
            name=self.name,
            line=first,
            lines=last - first + 1,
            branches=self.branches,
            nesting=self.nesting,
        )


@dataclass(slots=True)
class _Counts:
    """A file while it is being walked."""

    classes: int = 0
    branches: int = 0
    nesting: int = 0
    public: int = 0
    undocumented: int = 0
    functions: list[_Counted] = field(default_factory=list[_Counted])

    def look_at_docstring(self, node: Documented) -> None:
        self.public += 1
        if ast.get_docstring(node, clean=False) is None:
            self.undocumented += 1


class _Visit(NamedTuple):
    """A node to look at, and its place in the tree."""

    node: ast.AST
    depth: int  # of nested blocks, counted from the function that it belongs to
    inside: _Counted | None  # that function; None at the level of the module or a class
    scope: str  # the dotted prefix of a name defined here: "", "Class.", "function."
    public: bool  # whether a name defined here is part of what the module offers


def _count(tree: ast.Module) -> _Counts:
    """Walk a tree with a stack of our own: generated code nests deeper than Python recurses."""
    counts = _Counts()
    counts.look_at_docstring(tree)
    stack = [_Visit(child, 0, None, "", public=True) for child in reversed(tree.body)]
    while stack:
        visit = stack.pop()
        node = visit.node
        if isinstance(node, FUNCTIONS):
            visit = _enter_function(counts, node, visit)
        elif isinstance(node, ast.ClassDef):
            visit = _enter_class(counts, node, visit)
        else:
            _count_branches(counts, node, visit)
            if isinstance(node, NESTS):
                visit = visit._replace(depth=visit.depth + 1)
                _count_nesting(counts, visit)
        stack.extend(_children(node, visit))
    return counts


def _enter_function(counts: _Counts, node: Function, visit: _Visit) -> _Visit:
    if visit.public and not node.name.startswith("_"):
        counts.look_at_docstring(node)
    function = _Counted(visit.scope + node.name, node)
    counts.functions.append(function)
    # Functions defined inside of a function are private to it.
    return visit._replace(depth=0, inside=function, scope=f"{function.name}.", public=False)


def _enter_class(counts: _Counts, node: ast.ClassDef, visit: _Visit) -> _Visit:
    counts.classes += 1
    public = visit.public and not node.name.startswith("_")
    if public:
        counts.look_at_docstring(node)
    return visit._replace(scope=f"{visit.scope}{node.name}.", public=public)


def _count_branches(counts: _Counts, node: ast.AST, visit: _Visit) -> None:
    if isinstance(node, BRANCHES):
        branches = 1
    elif isinstance(node, ast.BoolOp):
        branches = len(node.values) - 1
    else:
        return
    counts.branches += branches
    if visit.inside is not None:
        visit.inside.branches += branches


def _count_nesting(counts: _Counts, visit: _Visit) -> None:
    counts.nesting = max(counts.nesting, visit.depth)
    if visit.inside is not None:
        visit.inside.nesting = max(visit.inside.nesting, visit.depth)


def _children(node: ast.AST, visit: _Visit) -> Iterator[_Visit]:
    """Return the nodes to look at next."""
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.If) and _is_elif(node, child):
            yield visit._replace(node=child, depth=visit.depth - 1)
        else:
            yield visit._replace(node=child)


def _is_elif(parent: ast.If, child: ast.AST) -> bool:
    """An `elif` is stored as an `if` alone inside `else`; only its column differs."""
    return (
        isinstance(child, ast.If)
        and parent.orelse == [child]
        and child.col_offset == parent.col_offset
    )
