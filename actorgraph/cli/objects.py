"""The names of a program that are graphs and builders, found without running it.

An object is known by the call that it was assigned from: `builder.compile()` gives a graph, and so
does a function that returns one. Names that other files import are followed by the name of their
module.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

AGENTS = frozenset({"create_react_agent", "entrypoint", "create_tool_calling_executor"})
BUILDERS = frozenset({"StateGraph", "MessageGraph", "Graph"})
_FLUENT = frozenset(
    """
    add_node add_edge add_conditional_edges add_sequence set_entry_point set_finish_point
    set_conditional_entry_point set_node_defaults
    """.split()  # noqa: SIM905 - a list of words is shorter to read
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Objects:
    """The names of one module.

    Attributes:
        graphs: names and attributes of compiled graphs, such as `app` and `self.graph`.
        makers: functions that return one.
        builders: names of StateGraphs.
        dicts: name -> the dict that it is assigned.
    """

    graphs: set[str] = field(default_factory=set[str])
    makers: set[str] = field(default_factory=set[str])
    builders: set[str] = field(default_factory=set[str])
    dicts: dict[str, ast.Dict] = field(default_factory=dict[str, ast.Dict])


Modules = Mapping[str, Objects]
"""Name of a module, without its package -> its names."""


def objects_of(tree: ast.Module, elsewhere: Modules | None = None) -> Objects:
    """Find the graphs of a module.

    Args:
        elsewhere: those of the other files.
    """
    found = Objects()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            _import(node, elsewhere or {}, found)
    size = -1
    while size != (size := len(found.graphs) + len(found.makers) + len(found.builders)):
        for node in ast.walk(tree):
            _look_at(node, found)
    return found


def _import(node: ast.ImportFrom, elsewhere: Modules, found: Objects) -> None:
    known = elsewhere.get((node.module or "").rpartition(".")[2])
    for alias in node.names if known else ():
        assert known is not None
        local = alias.asname or alias.name
        if alias.name in known.graphs:
            found.graphs.add(local)
        elif alias.name in known.makers:
            found.makers.add(local)


def _look_at(node: ast.AST, found: Objects) -> None:
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in map(ast.unparse, targets):
            if is_graph(node.value, found):
                found.graphs.add(target)
            elif _is_builder(node.value, found):
                found.builders.add(target)
            elif isinstance(node.value, ast.Dict):
                found.dicts[target] = node.value
    elif isinstance(node, ast.arg) and node.annotation is not None:
        kind = ast.unparse(node.annotation).strip("'\"").partition("[")[0].rpartition(".")[2]
        if kind in ("CompiledStateGraph", "Pregel"):
            found.graphs.add(node.arg)
        elif kind in BUILDERS:
            found.builders.add(node.arg)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        if any(is_graph(value, found) for value in _returned(node)):
            found.makers.add(node.name)
        if any(_called(decorator) == "entrypoint" for decorator in node.decorator_list):
            found.graphs.add(node.name)


def is_graph(value: ast.expr, found: Objects) -> bool:
    """Whether an expression is a compiled graph."""
    if isinstance(value, ast.Await):
        return is_graph(value.value, found)
    if not isinstance(value, ast.Call):
        return ast.unparse(value) in found.graphs
    name = _called(value)
    if isinstance(value.func, ast.Attribute):
        if name == "compile":
            return ast.unparse(value.func.value) != "re"
        if name == "with_config":
            return is_graph(value.func.value, found)
        return name in found.makers
    return name in found.makers or (name in AGENTS and name != "entrypoint")


def _is_builder(value: ast.expr, found: Objects) -> bool:
    if not isinstance(value, ast.Call):
        return ast.unparse(value) in found.builders
    name = _called(value)
    if isinstance(value.func, ast.Attribute) and name in _FLUENT:
        return _is_builder(value.func.value, found)
    return name in BUILDERS


def _returned(function: Function) -> Iterator[ast.expr]:
    for node in own_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value


def own_nodes(function: Function | ast.Module) -> Iterator[ast.AST]:
    """Iterate over the nodes of a function, without those of the functions inside."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            left.extend(ast.iter_child_nodes(node))


def _called(node: ast.expr) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
