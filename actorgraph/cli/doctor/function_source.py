"""Find the syntax tree of a function that exists already.

The source shows the structure: which value is called, which name means which scope. But a file
may have changed since it was imported, several lambdas may share a line, and a tool may have
rewritten the code. So the tree counts only if its compilation gives the function's own bytecode.
The source comes from `linecache`, as for tracebacks: files, archives and cells of notebooks.
"""

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FILE_CHARACTERS_MAX = 2_000_000
_TREES_MAX = 4
"""Parsed files to keep: a graph's functions are usually in one or two."""


def syntax_of(function: FunctionType) -> FunctionNode | None:
    """Return the syntax tree of a function; None if its source is missing or isn't its code's."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    return _syntax_of_code(code, "".join(lines)) if lines else None


@lru_cache(maxsize=256)
def _syntax_of_code(code: CodeType, source: str) -> FunctionNode | None:
    parsed = _parsed(source, code.co_filename)
    if parsed is None:
        return None
    for statement in parsed.body:
        if not _may_hold(statement, code):
            continue
        nodes = [node for node in ast.walk(statement) if _begins(node, code)]
        node = _closest([n for n in nodes if isinstance(n, _DEFINES)], code)
        if node is not None and _is_compiled_to(parsed, statement, code):
            return node
    return None


def _may_hold(statement: ast.stmt, code: CodeType) -> bool:
    end = statement.end_lineno or statement.lineno
    return _first_line(statement) <= code.co_firstlineno <= end


def _first_line(node: ast.stmt) -> int:
    """Return the line of the first decorator, or of the statement."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


@lru_cache(maxsize=_TREES_MAX)
def _parsed(source: str, filename: str) -> ast.Module | None:
    if len(source) > _FILE_CHARACTERS_MAX:
        return None
    try:
        return ast.parse(source, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _begins(node: ast.AST, code: CodeType) -> bool:
    """Whether a definition has the name and the first line of the code."""
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        return False
    return _first_line(node) == code.co_firstlineno


def _closest(nodes: list[FunctionNode], code: CodeType) -> FunctionNode | None:
    """Choose the lambda whose body has all positions of the code, of several on a line."""
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    places = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line and end_line and column is not None and end_column
    ]
    around = [node for node in nodes if places and all(_is_inside(p, node) for p in places)]
    # Lambdas in each other: the outer one's code makes the inner lambda, which is more than the
    # inner one's body; so the shortest that is left is the right one.
    around.sort(key=_length)
    return around[0] if around else None


def _is_inside(place: tuple[int, int, int, int], node: FunctionNode) -> bool:
    line, column, end_line, end_column = place
    body = node.body
    if isinstance(body, list):
        return False
    end = (body.end_lineno or 0, body.end_col_offset or 0)
    return (body.lineno, body.col_offset) <= (line, column) and (end_line, end_column) <= end


def _length(node: FunctionNode) -> tuple[int, int]:
    columns = (node.end_col_offset or 0) - node.col_offset
    return (node.end_lineno or node.lineno) - node.lineno, columns


def _is_compiled_to(parsed: ast.Module, statement: ast.stmt, code: CodeType) -> bool:
    """Whether compiling the statement that holds the definition gives exactly this code."""
    # A call of an imported module's function is compiled differently from one of a method.
    module = ast.Module([*_imports(parsed.body), statement], [])
    try:
        compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    own = _print(code)
    return any(
        found.co_firstlineno == code.co_firstlineno and _print(found) == own
        for found in _codes(compiled)
        if found.co_name == code.co_name
    )


def _imports(statements: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the imports of a module's own scope."""
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, (ast.stmt, ast.ExceptHandler)) and not isinstance(
            statement, (*_DEFINES, ast.ClassDef)
        ):
            yield from _imports(ast.iter_child_nodes(statement))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _print(code: CodeType) -> tuple[Any, ...]:
    """Everything that decides what a code does, and where its text is."""
    return (
        code.co_name,
        code.co_flags,
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_kwonlyargcount,
        tuple(code.co_positions()),
        tuple(
            _print(c) if isinstance(c, CodeType) else (type(c).__name__, repr(c))
            for c in code.co_consts
        ),
    )
