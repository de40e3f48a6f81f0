"""A spec as a graph of either library: the one place that builds, with the library as argument."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from anyio import sleep

from tests.differential.behaviour import TOOLS_NODE, NodeError, Returned, act, decide
from tests.differential.changes import changed, renames
from tests.differential.schemas import made_object, schema_of, seen_in
from tests.differential.tools import asked_for, to_tools, tool_node
from tests.differential.trace import Spec

# A node fails when its siblings have finished: which of them are cut off is no library's promise.
SECONDS_BEFORE_FAILING = 0.1
OURS, THEIRS = "actorgraph", "langgraph"
HOMES = {
    OURS: {
        "StateGraph": OURS,
        "Send": OURS,
        "Command": OURS,
        "interrupt": OURS,
        "InMemorySaver": OURS,
        "add_messages": OURS,
        "get_config": OURS,
        "Migration": "actorgraph.types",
        "ToolNode": "actorgraph.prebuilt",
        "InjectedState": "actorgraph.prebuilt",
        "InjectedToolCallId": "actorgraph.prebuilt",
    },
    THEIRS: {
        "StateGraph": "langgraph.graph",
        "Send": "langgraph.types",
        "Command": "langgraph.types",
        "interrupt": "langgraph.types",
        "InMemorySaver": "langgraph.checkpoint.memory",
        "add_messages": "langgraph.graph.message",
        "get_config": "langgraph.config",
        "ToolNode": "langgraph.prebuilt",
        "InjectedState": "langgraph.prebuilt",
        "InjectedToolCallId": "langchain_core.tools",
    },
}
MESSAGES = {"AIMessage": "langchain_core.messages", "ToolMessage": "langchain_core.messages"}
"""The classes of both libraries."""


@dataclass
class Library:
    """The names that a graph is built of, from one library."""

    name: str

    def __getattr__(self, name: str) -> Any:
        """Import a name at its first use: few specs have messages and tools."""
        home = HOMES[self.name].get(name) or MESSAGES.get(name)
        if home is None:
            raise AttributeError(name)
        setattr(self, name, getattr(import_module(home), name))
        return getattr(self, name)


@dataclass
class Built:
    """A compiled graph, and what its nodes did.

    Attributes:
        spec: of the graph; `change` makes the next one's.
        schemas: the class of each graph, by its path.
        calls: how often each node was called.
        supersteps: of nested graphs: (namespace, step) -> the forms of the nodes called in it.
        names: old -> new, of the nodes that a migration has renamed.
        below: namespace of a graph -> those of the graphs that ran as nodes of it.
        wrap: what is made of a compiled graph before it is driven.
    """

    library: Any
    spec: Spec
    saver: Any
    plain: bool = False
    graph: Any = None
    schemas: dict[str, Any] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    supersteps: dict[Any, dict[str, str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    below: dict[str, set[str]] = field(default_factory=dict)
    wrap: Callable[[Any], Any] = lambda graph: graph

    def change(self) -> None:
        """Make the graph after the changes, over the same saver.

        Renames that are migrated are made here alone: then a trace must be that of LangGraph
        without them.
        """
        old = self.spec
        if old.get("migrates") and self.library.name == THEIRS:
            self.compile()
            return
        self.spec = {**changed(old), "changes": []}
        self.names = renames(old) if old.get("migrates") else {}
        migration = {"migrations": [self.library.Migration(nodes=self.names)]} if self.names else {}
        self.compile(**migration)

    def compile(self, **options: Any) -> None:
        """Make the graph of the spec."""
        spec = self.spec
        builder = builder_of(self.library, spec, self)
        options |= {"interrupt_before": spec["before"], "interrupt_after": spec["after"]}
        self.graph = self.wrap(builder.compile(checkpointer=self.saver, **options))


def build(library: Any, spec: Spec, *, plain: bool = False) -> Built:
    """The graph of a spec, with a saver of its own; of plain functions, or of async ones."""
    built = Built(library, spec, library.InMemorySaver(), plain)
    built.compile()
    return built


def builder_of(library: Any, spec: Spec, built: Built, prefix: str = "") -> Any:
    """The nodes and edges; nested graphs are compiled without a saver."""
    plain = built.plain
    # A class whose keys are the same stays the same one, as in a module that has not changed.
    known, same = built.schemas.get(prefix, (None, None))
    channels = spec["channels"]
    schema = known if same == channels else schema_of(library, spec, prefix)
    built.schemas[prefix] = schema, channels
    builder = library.StateGraph(schema)
    for name, node in spec["nodes"].items():
        if "graph" in node:
            inner = builder_of(library, node["graph"], built, f"{prefix}{name}/")
            builder.add_node(name, inner.compile())
        elif "tools" in node:
            note = partial(note_call, built, nested=bool(prefix))
            builder.add_node(name, tool_node(library, node["tools"], note, plain=plain))
        else:
            call = node_of(library, prefix + name, node, built, partial(made_object, spec, schema))
            builder.add_node(name, call, **({"defer": True} if node.get("defer") else {}))
    for source, target in spec["edges"]:
        builder.add_edge(source, target)
    for place, branch in enumerate(spec["branches"]):
        # LangGraph doesn't await the routers behind a node that hands over.
        above = "graph" in spec["nodes"].get(branch["source"], ())
        route = branch_of(library, branch, place, plain=plain or above)
        builder.add_conditional_edges(branch["source"], route)
    return builder


_COUNTING = threading.Lock()


def node_of(
    library: Any, path: str, node: dict[str, Any], built: Built, objects: Callable[[Any], Any]
) -> Any:
    """A node that asks, fails and returns as its spec says."""
    above, _, name = path.rpartition("/")

    def fails() -> bool:
        with _COUNTING:
            built.calls[path] += 1
            if above:
                note_superstep(built, name, node["form"])
            return built.calls[path] <= node.get("fails", 0)

    def returned(state: Any) -> Any:
        seen = seen_in(state)
        answers = [library.interrupt(question(path, k, seen)) for k in range(node.get("asks", 0))]
        return formed(library, node["form"], act(name, node, seen, answers), objects)

    async def call(state: Any) -> Any:
        if fails():
            await sleep(SECONDS_BEFORE_FAILING)
            raise NodeError(name)
        return returned(state)

    def plain_call(state: Any) -> Any:
        if fails():
            time.sleep(SECONDS_BEFORE_FAILING)
            raise NodeError(name)
        return returned(state)

    call.__name__ = plain_call.__name__ = name
    return plain_call if built.plain else call


def note_call(built: Built, tool: str, *, nested: bool) -> None:
    """Count a call of a tool."""
    with _COUNTING:
        built.calls[f"tools/{tool}"] += 1
        if nested:
            note_superstep(built, tool, "parent" if tool == "leave" else "tool")


def note_superstep(built: Built, name: str, form: str) -> None:
    """Remember that a node of a nested graph was called, and in which superstep of which graph."""
    metadata = built.library.get_config()["metadata"]
    namespace = metadata["langgraph_checkpoint_ns"]
    above = namespace.rpartition("|")[0]
    called = built.supersteps.setdefault((above, metadata["langgraph_step"]), {})
    called[f"{name} {namespace}"] = form
    # The graph is a task of the one above: of which superstep there, a node can't see.
    built.below.setdefault(above.rpartition("|")[0], set()).add(above)


def question(path: str, number: int, seen: dict[str, Any]) -> str:
    """The question of a node; two tasks of one node differ by what they see."""
    return f"{path}?{number} at {seen.get('n', 0)}"


def formed(
    library: Any, form: str, made: Returned, objects: Callable[[Any], Any] | None = None
) -> Any:
    """The result of a node, in one of the forms that a return may have.

    Args:
        objects: makes an object of the state's class of a dict, for the form "object".
    """
    sends = [library.Send(target, arg) for target, arg in made.sends]
    sends += [library.Send(TOOLS_NODE, to_tools(call, made.context)) for call in made.calls]
    if "messages" in made.update:
        asked = [asked_for(library, one) for one in made.update["messages"]]
        made.update["messages"] = asked
    moves = [*made.goto, *sends]
    match form:
        case "dict" if not moves:
            return made.update
        case "object" if not moves and objects is not None:
            return objects(made.update)
        case "parent":
            parent = library.Command.PARENT
            return library.Command(graph=parent, update=made.update, goto=moves)
        case "list":
            pairs = [{key: value} for key, value in made.update.items()]
            return [*pairs, library.Command(goto=moves)]
        case "none" if not moves:
            return None
        case _:
            return library.Command(update=made.update, goto=moves)


def branch_of(library: Any, branch: dict[str, Any], place: int, *, plain: bool) -> Any:
    """A conditional edge."""

    def plain_route(state: Any) -> Any:
        found = decide(branch, seen_in(state))
        return [library.Send(*t) if isinstance(t, tuple) else t for t in found]

    async def route(state: Any) -> Any:
        return plain_route(state)

    route.__name__ = plain_route.__name__ = f"route{place}"
    return plain_route if plain else route
