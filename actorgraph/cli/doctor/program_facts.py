"""Facts about a program: its graphs, its modules and its systems. Nothing of it is run."""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from actorgraph.cli.doctor.facts import (
    CallFact,
    GraphFacts,
    InputFacts,
    ModuleFacts,
    NodeFacts,
    ProgramFacts,
    SystemFacts,
    TypeFact,
)
from actorgraph.cli.doctor.node_calls import calls_of, functions_in, returned_keys
from actorgraph.cli.doctor.program_checks import ADDRESSES, EXTRAS
from actorgraph.cli.doctor.served_facts import served_in, systems_in
from actorgraph.cli.doctor.state_types import unstorable_types, unstorable_values
from actorgraph.graph import START, CompiledStateGraph
from actorgraph.internals import ROOT_CHANNEL as ROOT
from actorgraph.internals import NodePlan, Plan
from actorgraph.systems import ActorSystem

FILE_BYTES_MAX = 2_000_000
MODULES_MAX = 100
"""Modules of the program that are read."""


def program_facts(name: str, named: object, module: ModuleType | None = None) -> ProgramFacts:
    """Gather the facts of a program.

    Args:
        name: "module:name".
        named: the graph, system or ASGI application of that name.
        module: that of the name, whose source and that of its neighbours is read.
    """
    systems = systems_in(named)
    graphs: dict[int, tuple[CompiledStateGraph, bool]] = {}
    if isinstance(named, CompiledStateGraph):
        graphs[id(named)] = named, _saves(named)
    for system in systems:
        for graph in system.graphs.values():
            graphs.setdefault(id(graph), (graph, True))
    found = [facts for graph, saves in graphs.values() for facts in graph_facts(graph, saves=saves)]
    files = {call.file for graph in found for node in graph.nodes for call in node.calls}
    return ProgramFacts(
        name,
        graphs=tuple(found),
        modules=tuple(_modules(module, files)),
        systems=tuple(map(system_facts, systems)),
        served=tuple(served_in(named)),
        installed=installed_packages(),
    )


def installed_packages() -> frozenset[str]:
    """Return the packages that can be imported, of those that extras bring."""
    return frozenset(name for name in EXTRAS if name in sys.modules or find_spec(name) is not None)


def graph_facts(
    graph: CompiledStateGraph,
    *,
    saves: bool | None = None,
    prefix: str = "",
    converted: Collection[type] = (),
) -> Iterator[GraphFacts]:
    """Yield the facts of a graph and of its subgraphs.

    Args:
        saves: whether its runs have a saver; default: whether it was compiled with one.
        prefix: the names of the graphs above, with slashes.
        converted: types that the codec of the saver above has converters for.
    """
    converted = _converted(graph) if _saves(graph) else converted
    plan, name = graph.plan, f"{prefix}{graph.name}"
    saves = _saves(graph) if saves is None else saves
    yield GraphFacts(
        name=name,
        nodes=tuple(_node(name, node) for node in plan.callable.values() if node.name != START),
        strict=plan.strict,
        has_saver=saves,
        pauses=tuple(dict.fromkeys((*plan.interrupt_before, *plan.interrupt_after))),
        durability=graph.durability.value,
        unstorable=tuple(_unstorable(plan, converted)),
        report=tuple(graph.topology()["report"]),
        keys=plan.start.writes - {ROOT} if plan.start else frozenset(),
    )
    for below in graph.subgraphs.values():
        if isinstance(below, CompiledStateGraph):
            inherits = saves and below.checkpointer is not False
            yield from graph_facts(below, saves=inherits, prefix=f"{name}/", converted=converted)


def _saves(graph: CompiledStateGraph) -> bool:
    return graph.checkpointer is not None and graph.checkpointer is not False


def _converted(graph: CompiledStateGraph) -> Collection[type]:
    return getattr(graph.codec, "converted", ())


def _unstorable(plan: Plan, converted: Collection[type]) -> Iterator[TypeFact]:
    for key in plan.state_keys:
        channel = plan.channels.get(key)
        if channel is not None and key not in plan.untracked:
            path = "state" if key == ROOT else f"state.{key}"
            yield from unstorable_types(channel.typ, path, converted)


def _node(graph: str, node: NodePlan) -> NodeFacts:
    """Gather the facts of one node; a subgraph's are those of its own nodes."""
    on_loop: list[CallFact] = []
    plain: list[CallFact] = []
    returned = []
    if not isinstance(getattr(node.call, "__self__", None), CompiledStateGraph):
        for function in functions_in(node.call):
            (on_loop if node.is_async else plain).extend(calls_of(function))
            returned += returned_keys(function)
    for branch in node.branches:
        for function in functions_in(branch.path):
            (on_loop if branch.is_async else plain).extend(calls_of(function))
    return NodeFacts(
        graph=graph,
        name=node.name,
        writes=node.writes | node.own,
        bare=node.bare,
        calls=tuple(on_loop),
        plain_calls=tuple(plain),
        returned=tuple(returned),
    )


def system_facts(system: ActorSystem) -> SystemFacts:
    """Gather the settings of a system."""
    saver: Any = system.saver
    return SystemFacts(
        graphs=frozenset(system.graphs),
        builds=frozenset(system.builds),
        lease_s=system.lease_s,
        busy_timeout_s=getattr(saver, "busy_timeout_s", None),
        durable=bool(getattr(saver, "durable", True)),
    )


def input_facts(graph: CompiledStateGraph, given: object) -> InputFacts:
    """Compare an input with the graph's keys, and its values with what can be stored."""
    start = graph.plan.start
    keys = start.writes - {ROOT} if start else frozenset[str]()
    unknown: list[str] = []
    if isinstance(given, Mapping) and keys:
        unknown = [str(key) for key in given if key not in keys]
    unstorable: list[tuple[str, str]] = []
    if graph.checkpointer is not None:
        unstorable += unstorable_values(given, "state", _converted(graph))
    return InputFacts(graph.name, tuple(unknown), tuple(unstorable), tuple(sorted(keys)))


def _modules(module: ModuleType | None, files: Iterable[str]) -> Iterator[ModuleFacts]:
    """Read the program's module, those of its folder, and those of its nodes."""
    paths: dict[str, None] = {}
    own = getattr(module, "__file__", None)
    if own:
        paths[own] = None
        folder = str(Path(own).parent)
        for other in list(sys.modules.values()):
            file = getattr(other, "__file__", None)
            if file and file.startswith(folder) and "-packages" not in file:
                paths[file] = None
    paths.update(dict.fromkeys(file for file in sorted(files) if "-packages" not in file))
    for path in list(paths)[:MODULES_MAX]:
        facts = read_module(Path(path))
        if facts is not None:
            yield facts


def read_module(file: Path) -> ModuleFacts | None:
    """Read one file; None if it isn't a Python program."""
    try:
        if file.suffix != ".py" or file.stat().st_size > FILE_BYTES_MAX:
            return None
        return module_facts(file.read_text("utf-8"), str(file))
    except (OSError, SyntaxError, ValueError):
        return None


def module_facts(source: str, file: str) -> ModuleFacts:
    """Find imports, addresses and settings in the source of a module.

    Raises:
        SyntaxError: it isn't Python.
    """
    imports: list[tuple[str, int]] = []
    exits: list[int] = []
    addresses: list[tuple[str, int]] = []
    words: set[str] = set()
    tree = ast.parse(source, file)
    guarded = {id(n) for t in ast.walk(tree) if isinstance(t, ast.Try) for n in ast.walk(t)}
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom() if id(node) in guarded:
                pass  # the program goes on without it
            case ast.Import(names=names):
                imports += [(each.name, node.lineno) for each in names]
            case ast.ImportFrom(module=str(name), names=names, level=0):
                imports += [(f"{name}.{each.name}", node.lineno) for each in names]
            case ast.keyword(arg="durability", value=ast.Constant(value="exit")):
                exits.append(node.value.lineno)
            case ast.Constant(value=str(text)) if (scheme := text.partition("://")[0]) in ADDRESSES:
                addresses.append((scheme, node.lineno))
            case ast.Attribute(attr=attr):
                words.add(attr)
            case ast.Name(id=name):
                words.add(name)
            case _:
                pass
    return ModuleFacts(file, tuple(imports), tuple(exits), tuple(addresses), frozenset(words))
