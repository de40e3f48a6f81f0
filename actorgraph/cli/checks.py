"""Uses that the moved program would break on: arguments, attributes, calls, modules by name.

Each use of a moved name is compared with the object that it names here: a keyword, an attribute or
a subscript that this one doesn't have is reported.
"""

import ast
from collections.abc import Callable, Container, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, get_args

from actorgraph.cli.findings import COMPAT, PACKAGES, Remark
from actorgraph.cli.objects import Objects, own_nodes
from actorgraph.internals import class_of, declared_names, function_annotations, signature_of

_SCHEMAS = {"config_schema": "context_schema", "input": "input_schema", "output": "output_schema"}
_RETRY = {"retry": "retry_policy"}
_RUN = {"checkpoint_during": 'durability="async", or "exit" for False'}
_INTERRUPT: dict[str, str] = dict.fromkeys(("ns", "when", "resumable"), "id=, or leave it out")

ARGUMENTS: dict[str, dict[str, str]] = {
    "StateGraph": _SCHEMAS,
    "add_node": {**_RETRY, "input": "input_schema"},
    "task": _RETRY,
    "entrypoint": {**_RETRY, "config_schema": "context_schema"},
    "create_react_agent": {
        "config_schema": "context_schema",
        "state_modifier": "prompt",
        "messages_modifier": "prompt",
    },
    "add_conditional_edges": {"then": "an edge from each of the targets"},
    "Interrupt": _INTERRUPT,
    "JsonPlusSerializer": {
        "pickle_fallback": "types=[...] with the program's classes: nothing is pickled",
        "allowed_msgpack_modules": "types=[...] with the program's classes",
        "allowed_json_modules": "types=[...] with the program's classes",
    },
    **dict.fromkeys(("invoke", "ainvoke", "stream", "astream"), _RUN),
}
"""Function or method -> its old argument -> the replacement."""

ATTRIBUTES = {"interrupt_id": "id"}

ASYNC_TWINS = {
    "invoke": "await {}.ainvoke(...)",
    "stream": "async for ... in {}.astream(...)",
    "batch": "await {}.abatch(...)",
    "get_state": "await {}.aget_state(...)",
    "get_state_history": "async for ... in {}.aget_state_history(...)",
    "update_state": "await {}.aupdate_state(...)",
    "bulk_update_state": "await {}.abulk_update_state(...)",
}
"""Blocking method of a graph -> what async code writes."""

_SET = "pass it to compile(), such as compile(name=...)"

_BY_NAME = frozenset(
    """
    import_module __import__ find_spec importorskip patch resolve_name getLogger get_logger
    """.split()  # noqa: SIM905 - a list of words is shorter to read
)
_BUILDER_METHODS = ("add_node", "add_edge", "add_conditional_edges", "add_sequence", "compile")
_GRAPH_METHODS = ("invoke", "ainvoke", "stream", "astream", "get_state", "aget_state")


def outdated(tree: ast.AST) -> Iterator[Remark]:
    """Iterate over the uses of LangGraph's deprecated arguments and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name_of(node.func)
            known = ARGUMENTS.get(name, {})
            for keyword in node.keywords:
                if keyword.arg in known:
                    new = known[keyword.arg]
                    text = f"{name}({keyword.arg}=) is not supported here: write {new}"
                    yield Remark(node.lineno, text)
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield Remark(node.lineno, f".{node.attr} is .{ATTRIBUTES[node.attr]} here")


def misfits(tree: ast.AST, bindings: Mapping[str, str], objects: Objects) -> Iterator[Remark]:
    """Iterate over the uses of moved names that the objects here don't have.

    Args:
        bindings: local name -> dotted name here.
        objects: the program's graphs and builders.
    """
    deferred = _unevaluated(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _arguments(node, bindings, objects)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node, bindings, objects)
        elif isinstance(node, ast.Subscript) and id(node) not in deferred:
            home = bindings.get(ast.unparse(node.value), "")
            found = _resolved(home)
            if isinstance(found, type) and not hasattr(found, "__class_getitem__"):
                yield Remark(
                    node.lineno, f"{ast.unparse(node.value)}[...] has no type parameters here"
                )


def _arguments(node: ast.Call, bindings: Mapping[str, str], objects: Objects) -> Iterator[Remark]:
    name = ast.unparse(node.func)
    known = ARGUMENTS.get(_name_of(node.func), {})
    function: Any = _resolved(bindings[name]) if name in bindings else None
    if function is None and isinstance(node.func, ast.Attribute):
        function = _method(node.func, bindings, objects)
    if function is None:
        return
    keywords = [k.arg for k in node.keywords if k.arg is not None and k.arg not in known]
    refused = _refused(function, keywords)
    for keyword in refused:
        yield Remark(
            node.lineno,
            f"{name}({keyword}=) is not an argument here",
            f"leave it out, or see the arguments of {getattr(function, '__qualname__', name)}",
        )


def _method(
    node: ast.Attribute, bindings: Mapping[str, str], objects: Objects
) -> Callable[..., Any] | None:
    owner = ast.unparse(node.value)
    if owner in bindings:
        return getattr(_resolved(bindings[owner]), node.attr, None)
    if owner in objects.builders and node.attr in _BUILDER_METHODS:
        return getattr(_example("builder"), node.attr, None)
    if owner in objects.graphs and node.attr in _GRAPH_METHODS:
        return getattr(_example("graph"), node.attr, None)
    return None


def _attribute(
    node: ast.Attribute, bindings: Mapping[str, str], objects: Objects
) -> Iterator[Remark]:
    owner = ast.unparse(node.value)
    if isinstance(node.ctx, ast.Store) and owner in objects.graphs - objects.builders:
        slot = getattr(type(_example("graph")), node.attr, None)
        if isinstance(slot, property) and slot.fset is None:
            yield Remark(node.lineno, f"{owner}.{node.attr} can't be assigned here", _SET)
    if not isinstance(node.ctx, ast.Load):
        return
    if owner in bindings:
        found = _resolved(bindings[owner])
        missing = isinstance(found, type) and not hasattr(found, node.attr)
    elif owner in objects.graphs and owner in objects.builders:
        return  # one name for both, such as `graph = graph.compile()`
    elif owner in objects.graphs:
        missing = not hasattr(_example("graph"), node.attr)
    elif owner in objects.builders:
        missing = not hasattr(_example("builder"), node.attr)
    else:
        return
    if missing and not _is_field(bindings.get(owner, ""), node.attr):
        yield Remark(node.lineno, f"{owner}.{node.attr} does not exist here", COMPAT)


def _is_field(home: str, name: str) -> bool:
    kind = _resolved(home)
    return isinstance(kind, type) and name in declared_names(kind)


def _refused(function: Any, keywords: list[str]) -> list[str]:
    try:
        parameters = signature_of(function).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        named = _options(function)
        return [k for k in keywords if named and k not in named and k not in parameters]
    return [keyword for keyword in keywords if keyword not in parameters]


def _options(function: Any) -> frozenset[str]:
    """The keywords of `**options: Unpack[...]`; none if they aren't declared."""
    options = get_args(function_annotations(function).get("options"))
    return frozenset(declared_names(class_of(options[0]))) if options else frozenset()


@lru_cache(maxsize=512)
def _resolved(home: str) -> Any:
    """The object of a dotted name here; None if this installation doesn't have it."""
    package, _, name = home.rpartition(".")
    try:
        return getattr(import_module(package), name, None) if package else None
    except ImportError:
        return None


@lru_cache(maxsize=2)
def _example(kind: str) -> Any:
    """A small builder or graph, asked for the attributes that such an object has."""
    builder = _resolved("actorgraph.StateGraph")(dict).add_node("n", _nothing)
    builder.add_edge("__start__", "n")
    return builder if kind == "builder" else builder.compile()


def _nothing(state: dict[str, Any]) -> dict[str, Any]:
    return state


def _unevaluated(tree: ast.AST) -> set[int]:
    """The ids of the nodes in annotations that Python doesn't evaluate."""
    found: set[int] = set()
    postponed = any(
        isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in ast.walk(tree)
    )
    for node in ast.walk(tree):
        hints: list[ast.expr | None] = []
        if postponed and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            hints = [node.returns]
        elif postponed and isinstance(node, (ast.arg, ast.AnnAssign)):
            hints = [node.annotation]
        found.update(id(part) for hint in hints if hint for part in ast.walk(hint))
    return found


def blocking_calls(tree: ast.Module, objects: Objects) -> Iterator[Remark]:
    """Iterate over the blocking calls of graphs in async functions."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        for node in own_nodes(function):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in ASYNC_TWINS:
                owner = ast.unparse(called.value)
                if owner in objects.graphs:
                    yield Remark(
                        called.lineno,
                        f"{owner}.{called.attr}() blocks the event loop of the async function "
                        f"{function.name!r}, and is refused there",
                        ASYNC_TWINS[called.attr].format(owner),
                    )


def flat_configs(tree: ast.AST, objects: Objects) -> Iterator[Remark]:
    """Iterate over the configs of calls that have a `thread_id` outside of `configurable`."""
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if not isinstance(called, ast.Attribute) or ast.unparse(called.value) not in objects.graphs:
            continue
        assert isinstance(node, ast.Call)
        given = [*node.args, *(k.value for k in node.keywords if k.arg == "config")]
        for value in given:
            config = value if isinstance(value, ast.Dict) else objects.dicts.get(ast.unparse(value))
            keys = [k.value for k in config.keys if isinstance(k, ast.Constant)] if config else []
            if "thread_id" in keys and "configurable" not in keys:
                yield Remark(
                    node.lineno,
                    "the config has thread_id at its top level",
                    'write {"configurable": {"thread_id": ...}}',
                )


def packages(tree: ast.AST, own: Container[str] = ()) -> Iterator[Remark]:
    """Iterate over the imports of packages that import LangGraph themselves, once for each.

    Args:
        own: packages that are part of the program.
    """
    seen: set[str] = set()
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        for module in modules:
            package = next((p for p in PACKAGES if f"{module}.".startswith(f"{p}.")), None)
            if package is not None and package not in seen and package not in own:
                seen.add(package)
                assert isinstance(node, ast.stmt)
                yield Remark(node.lineno, f"{package} imports langgraph itself", COMPAT)


def modules_by_name(tree: ast.AST, is_module: Callable[[str], bool]) -> Iterator[Remark]:
    """Iterate over the calls that get a module of LangGraph's by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name_of(node.func) in _BY_NAME and node.args:
            first = node.args[0]
            text = first.value if isinstance(first, ast.Constant) else None
            if isinstance(text, str) and (text == "langgraph" or text.startswith("langgraph.")):
                if _name_of(node.func) in ("getLogger", "get_logger"):
                    yield Remark(
                        node.lineno, f"the logger {text!r} is 'actorgraph' here", is_note=True
                    )
                elif is_module(text) or text == "langgraph":
                    yield Remark(
                        node.lineno,
                        f"the module {text!r} is imported by its name",
                        "name the module of actorgraph that has the names it is imported for",
                    )


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
