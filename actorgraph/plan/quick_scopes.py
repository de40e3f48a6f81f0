"""The names of a function's text: its own, those of outer functions, and its module's."""

import ast
import builtins
import types
from collections.abc import Iterator, Mapping

from actorgraph.plan.quick_values import NOTHING, NotQuickError, Value, lift

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """The names of a function or comprehension; the outermost one resolves those of its module."""

    def __init__(
        self,
        function: types.FunctionType | None = None,
        *,
        outer: "Scope | None" = None,
        node: ast.AST | None = None,
        names: Mapping[str, Value] | None = None,
    ) -> None:
        self.function = function
        self.outer = outer
        self.names: dict[str, Value] = dict(names or {})
        self.own = {*self.names, *(_assigned(node) if node is not None else ())}

    def find(self, name: str) -> Value:
        """Return the value of a name.

        Raises:
            NotQuickError: it isn't known before the function runs.
        """
        if name in self.own:
            return self.names.get(name, NOTHING)
        if self.outer is not None:
            return self.outer.find(name)
        assert self.function is not None
        free = self.function.__code__.co_freevars
        try:
            if name in free:
                cells = self.function.__closure__ or ()
                return lift(cells[free.index(name)].cell_contents)
            found = self.function.__globals__
            return lift(found[name] if name in found else vars(builtins)[name])
        except (KeyError, ValueError):
            raise NotQuickError(f"reads {name}, which doesn't exist yet") from None

    def add(self, name: str, value: Value) -> None:
        """Add values to a name of this scope."""
        self.names[name] = self.names.get(name, NOTHING) | value


def _assigned(node: ast.AST) -> set[str]:
    """Find the names that a function or comprehension assigns, without those of nested ones."""
    if isinstance(node, COMPREHENSIONS):
        targets = [generator.target for generator in node.generators]
        return {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    found: set[str] = set()
    for part in _own_parts(node):
        match part:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                found.add(name)
            case _:
                pass
    return found


def _own_parts(node: ast.AST, *, inside: bool = False) -> Iterator[ast.AST]:
    """Walk a function's text; of comprehensions only `:=`, which assigns outside of them."""
    for child in ast.iter_child_nodes(node):
        inner = inside or isinstance(child, COMPREHENSIONS)
        if isinstance(child, ast.NamedExpr):
            yield child.target
        if not inner:
            yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _own_parts(child, inside=inner)
