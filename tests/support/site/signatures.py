"""Signatures as their source writes them, one parameter per line when they are long."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, get_overloads

WIDTH_MAX = 80
NAMES = re.compile(r"[A-Za-z_][\w.]*|[^A-Za-z_]+|.")


def function_node(function: Callable[..., Any]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The statement that defines a function; None if its source can't be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return None
    found = tree.body[0]
    return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None


class _Unquoted(ast.NodeTransformer):
    """Types that are written as strings become types."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Leave the values of Literal alone."""
        return node if ast.unparse(node.value) == "Literal" else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Read a string as a type."""
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def written(annotation: ast.expr) -> str:
    """An annotation as its source has it, without quotation marks around types."""
    return ast.unparse(_Unquoted().visit(annotation))


def plain_function(member: Any) -> Any:
    """The function below a property, a class method or a static method."""
    for attribute in ("fget", "func", "__func__"):
        member = getattr(member, attribute, member)
    return member


def annotations(function: Callable[..., Any]) -> dict[str, str]:
    """Parameter -> its annotation, as written."""
    node = function_node(function)
    if node is None:
        return {}
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    every += [arg for arg in (node.args.vararg, node.args.kwarg) if arg]
    return {arg.arg: written(arg.annotation) for arg in every if arg.annotation}


def of_function(function: Callable[..., Any], name: str, *, bound: bool = False) -> list[str]:
    """The signatures of a function: its overloads, or its own.

    Args:
        name: as a reader calls it.
        bound: leave out `self` or `cls`.
    """
    plain = inspect.unwrap(plain_function(function))
    nodes = [function_node(each) for each in get_overloads(plain)] or [function_node(plain)]
    return [_written(node, name, bound=bound) for node in nodes if node is not None]


def of_class(kind: type, name: str) -> str:
    """`class Name(parameters)`, of its constructor."""
    init = next((vars(c)["__init__"] for c in kind.__mro__ if "__init__" in vars(c)), None)
    node = function_node(init) if init is not None and hasattr(init, "__code__") else None
    ours = getattr(init, "__module__", "").startswith("actorgraph") and not _generated(init)
    if node is not None and ours:
        return _written(node, name, bound=True, keyword="class", returns=False)
    try:
        signature = inspect.signature(kind)
    except (TypeError, ValueError):
        return f"class {name}"
    parameters = [_parameter(each) for each in signature.parameters.values()]
    kinds = [each.kind for each in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    return _wrapped(f"class {name}", parameters, "")


def _generated(init: Any) -> bool:
    return init.__code__.co_filename.startswith("<")


def _parameter(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    text = str(parameter.replace(annotation=inspect.Parameter.empty))
    if kind is not inspect.Parameter.empty:
        name, equals, default = text.partition("=")
        text = f"{name}: {short_type(kind)}" + (f" = {_default(default)}" if equals else "")
    return text


def _default(text: str) -> str:
    return "..." if text.startswith("<") else text


def short_type(kind: Any) -> str:
    """A type without the modules of its names."""
    text = inspect.formatannotation(kind) if not isinstance(kind, str) else kind
    parts = NAMES.findall(text)
    words = [p.rpartition(".")[2] if p[:1].isalpha() else p for p in parts]
    return "".join(words).replace("NoneType", "None")


def _written(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    name: str,
    *,
    bound: bool,
    keyword: str = "",
    returns: bool = True,
) -> str:
    args = node.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + list(args.defaults)
    parts = [_argument(a, d) for a, d in zip(positional, defaults, strict=True)]
    if args.posonlyargs:
        parts.insert(len(args.posonlyargs), "/")
    static = any(getattr(d, "id", "") == "staticmethod" for d in node.decorator_list)
    if bound and parts and not static:
        parts = parts[1:]
        if parts[:1] == ["/"]:
            parts = parts[1:]
    if args.vararg:
        parts.append("*" + _argument(args.vararg, None))
    elif args.kwonlyargs:
        parts.append("*")
    parts += [_argument(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg:
        parts.append("**" + _argument(args.kwarg, None))
    word = keyword or ("async def" if isinstance(node, ast.AsyncFunctionDef) else "def")
    result = f" -> {written(node.returns)}" if returns and node.returns else ""
    return _wrapped(f"{word} {name}", parts, result)


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    text = arg.arg + (f": {written(arg.annotation)}" if arg.annotation else "")
    if default is None:
        return text
    return (
        f"{text} = {ast.unparse(default)}" if arg.annotation else f"{text}={ast.unparse(default)}"
    )


def _wrapped(head: str, parts: list[str], result: str) -> str:
    line = f"{head}({', '.join(parts)}){result}"
    if len(line) <= WIDTH_MAX:
        return line
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{head}(\n{inner}){result}"
