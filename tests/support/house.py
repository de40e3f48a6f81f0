"""Measure how the code is laid out, and how many functions a few journeys pass through.

    python -m tests.support.house            # prints two Markdown tables
    python -m tests.support.house --calls    # the second one alone (`make counts`)
    python -m tests.support.house --tree DIR # of another tree: run it with that tree on PYTHONPATH

Layout     lines, files and functions of `actorgraph/`, circles of imports, comments, names
Journeys   calls, functions and files of `actorgraph/` between two points of a warm program:
           one node, one SQLite file, `sync`; every thread of the process counts. `invoke` is of
           one step of a plain node with a plain router and no saver; its frames are those of the
           package that a debugger shows above a breakpoint in the node
"""

import argparse
import ast
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict

from tests.support.source_files import FUNCTIONS, ROOT, Source, parse, sources

THINKING = (
    *("superstep/advance", "superstep/saves", "superstep/chunks", "codec/save_encoder"),
    *("supervisor", "persistence", "judge", "batch"),
)
"""The files where why-comments are due: by the end of their path, below any folder."""

ROLES = {
    *("__init__", "__main__", "base", "saver", "batch", "reading", "retention", "systems"),
    *("thread_index", "alarms"),
    *("schema", "backup", "store", "memory", "sqlite", "postgres", "statements", "transactions"),
    *("connections", "items", "statistics", "translate"),
}
"""File names that mean the same in every folder that has one."""


@dataclass
class Tree:
    """The Python files of a package: path below it -> text."""

    texts: dict[str, str]
    files: dict[str, Source] = field(init=False)

    def __post_init__(self) -> None:
        self.files = {path: Source(path, text) for path, text in self.texts.items()}

    @classmethod
    def read(cls, package: Path) -> "Tree":
        """The files below a folder; those of this project are parsed once per process."""
        shared = {ROOT / file.path: file for file in sources("actorgraph")}
        files = {str(file.relative_to(package)): file for file in sorted(package.rglob("*.py"))}
        made = cls({path: file.read_text("utf-8") for path, file in files.items()})
        made.files |= {path: shared[file] for path, file in files.items() if file in shared}
        parse(made.files.values())
        return made


SAME_IN_EACH = {"BatchRows"}
"""Classes that are the same thing in each storage."""

COMPONENTS = "web/http/response_types.py"
"""Its classes have the names of OpenAPI components, which clients know."""

PROMISED = {"Checkpoint"}
"""Names that two promised interfaces share, each in its own package: see docs/glossary.md."""


def spread(sizes: list[int]) -> str:
    """Median, 90th percentile and maximum."""
    ordered = sorted(sizes)
    return f"{statistics.median(ordered):.0f} / {ordered[int(len(ordered) * 0.9)]} / {ordered[-1]}"


def function_sizes(tree: Tree) -> list[int]:
    """The lines of every function, its decorators left out."""
    return [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for file in tree.files.values()
        for node in file.nodes(*FUNCTIONS)
    ]


def fullest(tree: Tree) -> str:
    """The folder with the most files."""
    counts: dict[str, int] = defaultdict(int)
    for path in tree.texts:
        counts[str(Path(path).parent)] += 1
    name = max(counts, key=lambda each: counts[each])
    return f"{counts[name]} ({name})"


def module_name(path: str) -> str:
    """`savers/judge.py` -> `actorgraph.savers.judge`."""
    return ".".join(["actorgraph", *Path(path).with_suffix("").parts]).removesuffix(".__init__")


def imports_of(tree: Tree) -> dict[str, set[str]]:
    """Module -> the modules that it imports, at any depth of its text."""
    names = {module_name(path) for path in tree.texts}
    found: dict[str, set[str]] = {}
    for path, file in tree.files.items():
        name, there = module_name(path), set[str]()
        for node in file.nodes(ast.Import, ast.ImportFrom):
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = [f"{node.module}.{each.name}" for each in node.names]
                there.update(each if each in names else node.module for each in whole)
            elif isinstance(node, ast.Import):
                there.update(each.name for each in node.names)
        found[name] = {each for each in there & names if each != name}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import one another, largest first.

    Source: Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[-len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def comments(file: Source) -> int:
    """Lines with a comment that is for a reader, not for a tool."""
    tools = tuple(f"# {tool}" for tool in ("noqa", "type:", "pyright:", "pragma"))
    return sum(not text.startswith(tools) for _, text in file.comments)


def thinking(tree: Tree) -> dict[str, float]:
    """Thinking room -> comment lines per 100 lines."""
    rates = {}
    for path, file in tree.files.items():
        stem = path.removesuffix(".py")
        thinks = any(stem == each or stem.endswith(f"/{each}") for each in THINKING)
        if thinks and not stem.startswith("stores/"):
            rates[stem] = 100 * comments(file) / len(file.lines)
    return rates


def documented(tree: Tree) -> Iterator[tuple[str, str, str]]:
    """Place, name and docstring of everything that has one."""
    for path, file in tree.files.items():
        for node in file.nodes(*FUNCTIONS, ast.ClassDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield f"{path}:{node.lineno}", node.name, text


def empty_docstrings(tree: Tree) -> list[str]:
    """Docstrings that add no word to the name."""
    fillers = {"a", "an", "the", "of", "this", "its", "itself", "it", "is", "to", "self"}
    found = []
    for place, name, text in documented(tree):
        words = {each.lower().strip("`.,:;").removesuffix("'s") for each in text.split()}
        if words <= fillers | set(name.lower().strip("_").split("_")):
            found.append(f"{place} {name}: {text!r}")
    return found


def double_names(tree: Tree) -> list[str]:
    """Classes defined twice, and file names in several folders that are not `ROLES`."""
    homes: dict[str, set[str]] = defaultdict(set)
    for path, file in tree.files.items():
        stem = Path(path).stem
        if stem not in ROLES:
            homes[f"{stem}.py"].add(str(Path(path).parent))
        for node in file.tree.body:
            if isinstance(node, ast.ClassDef) and path != COMPONENTS:
                homes[node.name].add(path)
    for name in SAME_IN_EACH | PROMISED:
        homes.pop(name, None)
    return sorted(f"{name}: {', '.join(sorted(at))}" for name, at in homes.items() if len(at) > 1)


def root_names(tree: Tree) -> int:
    """Length of the root's `__all__`."""
    for node in tree.files["__init__.py"].tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
            return len(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return 0


def layout(tree: Tree) -> dict[str, Any]:
    """Every figure of the layout, by its label."""
    lines = [len(text.splitlines()) for text in tree.texts.values()]
    rooms = thinking(tree)
    groups = circles(imports_of(tree))
    lowest = min(rooms, key=lambda each: rooms[each])
    all_comments = sum(map(comments, tree.files.values()))
    return {
        "files": len(lines),
        "lines": sum(lines),
        "lines a file (median / p90 / max)": spread(lines),
        "lines a function (median / p90 / max)": spread(function_sizes(tree)),
        "fullest folder": fullest(tree),
        "circles of files": f"{len(groups)} ({sum(map(len, groups))} files)",
        "comments per 100 lines": f"{100 * all_comments / sum(lines):.1f}",
        "the same, least of the thinking rooms": f"{rooms[lowest]:.1f} ({lowest})",
        "empty docstrings": len(empty_docstrings(tree)),
        "names that mean two things": len(double_names(tree)),
        "names of the root": root_names(tree),
    }


@dataclass
class Journey:
    """The calls between two points."""

    calls: int = 0
    functions: set[tuple[str, int]] = field(default_factory=set)
    open: bool = False

    def __str__(self) -> str:
        files = {file for file, _ in self.functions}
        return f"{self.calls:,} / {len(self.functions)} / {len(files)}"


class Counter:
    """A profile function of every thread that adds to the journeys that are open."""

    def __init__(self, package: Path) -> None:
        self._inside = f"{package}/"
        self.journeys: dict[str, Journey] = defaultdict(Journey)

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._inside):
            for journey in self.journeys.values():
                if journey.open:
                    code = frame.f_code
                    journey.calls += 1
                    journey.functions.add((code.co_filename, code.co_firstlineno))

    def begin(self, *names: str) -> None:
        for name in names:
            self.journeys[name].open = True

    def end(self, *names: str) -> None:
        for name in names:
            self.journeys[name].open = False

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Count one journey."""
        self.begin(name)
        yield
        self.end(name)


def watch_commits(done: Callable[[], None]) -> None:
    """Have `done` called at each COMMIT of the connections that are made from now on."""
    connect = sqlite3.connect

    def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(lambda said: done() if said.startswith("COMMIT") else None)
        return connection

    sqlite3.connect = watched


class State(TypedDict):
    """The state of the measured program."""

    text: str
    fail: bool


class Count(TypedDict):
    """The state of a loop that ends after one step."""

    count: int


def invoked(counter: Counter) -> dict[str, str]:
    """Go the journey of a blocking call."""
    from actorgraph import END, START, StateGraph

    package = str(Path(sys.modules["actorgraph"].__file__ or "").parent)
    frames: list[int] = []

    def node(state: Count) -> dict:
        if not frames:
            stack = traceback.extract_stack()
            frames.append(sum(frame.filename.startswith(package) for frame in stack))
        return {"count": state["count"] + 1}

    def again(state: Count) -> str:
        return END if state["count"] else "node"

    builder = StateGraph(Count)
    builder.add_node("node", node)
    builder.add_edge(START, "node").add_conditional_edges("node", again, ["node", END])
    graph = builder.compile()
    graph.invoke({"count": 0})  # which looks at the frames
    with counter.during("invoke, one step"):
        graph.invoke({"count": 0})
    return {"frames above a plain node of invoke": str(frames[0])}


async def walk(counter: Counter, folder: Path) -> dict[str, str]:
    """Go every journey of an event loop once, warm, in this process."""
    from actorgraph import END, START, SqliteSaver, StateGraph

    quiet = [True]

    async def node(state: State) -> dict:
        if not quiet[0]:
            counter.end("POST runs/stream, before the node")
            if state["fail"]:
                counter.begin("error to caller")
                raise ValueError("wrong")
            if state["text"] == "count":
                counter.begin("return value to row")
        return {"text": "done"}

    builder = StateGraph(State).add_node("node", node)
    builder.add_edge(START, "node").add_edge("node", END)
    frames = 0
    watch_commits(lambda: counter.end("return value to row"))
    async with SqliteSaver(str(folder / "journeys.db")) as saver:
        graph = builder.compile(checkpointer=saver)

        async def run(thread: str, text: str = "", *, fail: bool = False) -> Any:
            config = {"configurable": {"thread_id": thread}}
            return await graph.ainvoke({"text": text, "fail": fail}, config, durability="sync")

        await run("warm")
        await graph.aget_state({"configurable": {"thread_id": "warm"}})
        quiet[0] = False
        with counter.during("ainvoke + SQLite, one step"):
            await run("one", "count")
        try:
            await run("two", fail=True)
        except ValueError as error:
            counter.end("error to caller")
            frames = len(traceback.extract_tb(error.__traceback__))
        with counter.during("aget_state"):
            await graph.aget_state({"configurable": {"thread_id": "one"}})
        await post(counter, graph, quiet)
    found = {name: str(journey) for name, journey in counter.journeys.items()}
    return {**found, "frames shown of an error": str(frames)}


async def post(counter: Counter, graph: Any, quiet: list[bool]) -> None:
    """A POST to /threads/{id}/runs/stream of the web layer, read to its end."""
    import httpx

    from actorgraph import ActorSystem
    from actorgraph.web import GraphRoutes, running

    system = ActorSystem({"agent": graph})
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app=GraphRoutes(system)), base_url="http://test"
    )
    async with running(system), client:
        for warm in (True, False):
            quiet[0] = warm
            made = await client.post("/threads", json={})
            url = f"/threads/{made.json()['thread_id']}/runs/stream"
            body = {"assistant_id": "agent", "input": {"text": "", "fail": False}}
            if not warm:
                counter.begin("POST runs/stream", "POST runs/stream, before the node")
            answer = await client.post(url, json=body)
            counter.end("POST runs/stream")
            assert answer.status_code == 200, answer.text


def show_layout(tree: Tree, *, names: bool) -> None:
    """Print the first table, with `names` also the lists behind its counts."""
    for name, figure in layout(tree).items():
        print(f"| {name} | {figure} |")
    if names:
        for group in circles(imports_of(tree)):
            print("circle:", ", ".join(group))
        for each in [*double_names(tree), *empty_docstrings(tree)]:
            print(each)
        for room, rate in sorted(thinking(tree).items()):
            print(f"{room}: {rate:.1f}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="list what the counts stand for")
    parser.add_argument("--calls", action="store_true", help="only the journeys")
    options = parser.parse_args()
    import actorgraph

    package = Path(actorgraph.__file__).parent
    if not options.calls:
        show_layout(Tree.read(package), names=options.names)
    counter = Counter(package)
    threading.setprofile(counter)
    sys.setprofile(counter)
    frames = invoked(counter)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(walk(counter, Path(folder)))
    sys.setprofile(None)
    for name, figure in {**found, **frames}.items():
        print(f"| {name} | {figure} |")


if __name__ == "__main__":
    main()
