"""Follow the values through the text of one function: its statements and expressions.

A name has all values that are assigned to it anywhere in its scope, so that branches need no
order; a body with loops or nested functions is read again until no name gets another value.
"""

# ruff: noqa: D102, N815 - a method of a visitor is named after the syntax that it reads
import ast
import inspect
from collections.abc import Iterable
from typing import Any, Protocol

from actorgraph.plan.quick_calls import (
    GROWING,
    QUICK_KEY,
    Arguments,
    call_method,
    elements,
    items,
)
from actorgraph.plan.quick_scopes import COMPREHENSIONS, Scope
from actorgraph.plan.quick_values import (
    ANY,
    NOTHING,
    Atom,
    Container,
    Data,
    InnerFunction,
    Known,
    NotQuickError,
    Value,
    boxed,
    check_simple,
    check_used,
    constant,
    field_of,
    text_of,
)

_ROUNDS_MAX = 8
_LOOPS_DEEP_MAX = 3
_RANGE_MAX = 1000
_FACTOR_MAX = 1_000_000

_REFUSED: dict[type[ast.AST], str] = {
    ast.While: "has a while loop",
    ast.With: "has a with block",
    ast.AsyncWith: "has a with block",
    ast.Import: "imports a module when called",
    ast.ImportFrom: "imports a module when called",
    ast.Global: "changes a global",
    ast.Nonlocal: "changes a variable of an outer function",
    ast.ClassDef: "defines a class",
    ast.Await: "awaits",
    ast.Yield: "yields",
    ast.YieldFrom: "yields",
    ast.AsyncFor: "awaits",
    ast.AsyncFunctionDef: "defines an async function",
}


class Prover(Protocol):
    """The proof that a body belongs to."""

    def visit(self) -> None:
        """Count one part of the text."""
        ...

    def apply(self, callee: Value, arguments: Arguments) -> Value:
        """Return what a call gives."""
        ...

    def attribute(self, atom: Atom, name: str) -> Value:
        """Return what reading an attribute gives."""
        ...


class Body(ast.NodeVisitor):
    """One reading of a function's text; `visit` of an expression returns its value."""

    def __init__(self, proof: Prover, scope: Scope) -> None:
        self._proof = proof
        self._scope = scope
        self._function = scope
        self._returned: Value = NOTHING
        self._loops: list[str] = []

    def run(self, node: ast.FunctionDef | ast.Lambda) -> Value:
        """Read the body; return what the function returns."""
        again = (ast.For, ast.FunctionDef, ast.Lambda, *COMPREHENSIONS)
        parts = node.body if isinstance(node.body, list) else [ast.Return(node.body)]
        once = not any(isinstance(n, again) for part in parts for n in ast.walk(part))
        for _ in range(_ROUNDS_MAX):
            before = dict(self._scope.names), self._returned
            self._all(parts)
            if once or before == (self._scope.names, self._returned):
                return self._returned or ANY
        raise NotQuickError("assigns values that can't be followed")

    def visit(self, node: ast.AST) -> Any:
        """Visit one part of the text."""
        self._proof.visit()
        return super().visit(node)

    def generic_visit(self, node: ast.AST) -> Any:
        """Refuse what no method of this class knows."""
        raise NotQuickError(_REFUSED.get(type(node), f"uses {type(node).__name__}"))

    def _all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _used(self, node: ast.expr) -> Value:
        """Visit an expression whose value's own methods may be called."""
        value: Value = self.visit(node)
        try:
            check_used(value)
        except NotQuickError as refused:
            raise NotQuickError(f"{refused}: {ast.unparse(node)[:60]}") from None
        return value

    # Statements.

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._returned |= self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self._assign(target, value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self.visit(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        place = ast.copy_location(ast.BinOp(_loaded(node.target), node.op, node.value), node)
        self._assign(node.target, self.visit(place))

    def visit_If(self, node: ast.If) -> None:
        self._used(node.test)
        self._all([*node.body, *node.orelse])

    def visit_Assert(self, node: ast.Assert) -> None:
        self._used(node.test)
        if node.msg is not None:
            self.visit(node.msg)

    def visit_Raise(self, node: ast.Raise) -> None:
        for part in (node.exc, node.cause):
            if part is not None:
                self._raised(self.visit(part))

    def _raised(self, value: Value) -> None:
        for atom in value:
            if isinstance(atom, Known):  # a class, which `raise` calls
                self._proof.apply(frozenset([atom]), Arguments())

    def visit_Try(self, node: ast.Try) -> None:
        self._all([*node.body, *node.handlers, *node.orelse, *node.finalbody])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self._used(node.type)
        if node.name is not None:
            self._scope.add(node.name, ANY)
        self._all(node.body)

    def visit_For(self, node: ast.For) -> None:
        self._loop(node.iter, node.target)
        self._loops.append(ast.dump(node.iter))
        self._all(node.body)
        self._loops.pop()
        self._all(node.orelse)

    def _loop(self, iterated: ast.expr, target: ast.expr) -> None:
        if len(self._loops) >= _LOOPS_DEEP_MAX:
            raise NotQuickError(f"nests more than {_LOOPS_DEEP_MAX} loops")
        self._assign(target, elements(self._used(iterated)))

    def visit_Pass(self, node: ast.AST) -> None:
        """Nothing happens."""

    visit_Break = visit_Continue = visit_Pass

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                raise NotQuickError("deletes a part of an object")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            raise NotQuickError("defines a function with a decorator")
        self._scope.add(node.name, self._nested(node))

    def visit_Lambda(self, node: ast.Lambda) -> Value:
        return self._nested(node)

    def _nested(self, node: ast.FunctionDef | ast.Lambda) -> Value:
        spec = node.args
        names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        last = names[len(names) - len(spec.defaults) :]
        defaults = {n: self.visit(d) for n, d in zip(last, spec.defaults, strict=True)}
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if default is not None:
                defaults[arg.arg] = self.visit(default)
        return frozenset([InnerFunction(node, self._scope, defaults)])

    def visit_Match(self, node: ast.Match) -> None:
        subject = self._used(node.subject)
        for case in node.cases:
            self._pattern(case.pattern, subject)
            if case.guard is not None:
                self._used(case.guard)
            self._all(case.body)

    def _pattern(self, pattern: ast.pattern, subject: Value) -> None:
        inside = subject | elements(subject) | items(subject)
        match pattern:
            case ast.MatchValue(value):
                self._used(value)
            case ast.MatchClass(cls, parts, names, named):
                kind = self._class_pattern(cls, names, len(parts))
                self._patterns((*parts, *named), kind | inside)
            case ast.MatchMapping(keys, parts, rest):
                self._all(keys)
                self._patterns(parts, inside)
                if rest is not None:
                    self._scope.add(rest, subject)
            case ast.MatchSequence(parts) | ast.MatchOr(parts):
                self._patterns(parts, inside)
            case ast.MatchAs(inner, name):
                if inner is not None:
                    self._pattern(inner, subject)
                if name is not None:
                    self._scope.add(name, subject)
            case ast.MatchStar(str(name)):
                self._scope.add(name, inside)
            case _:
                pass  # `None`, `True`, or a star without a name

    def _patterns(self, patterns: Iterable[ast.pattern], subject: Value) -> None:
        for pattern in patterns:
            self._pattern(pattern, subject)

    def _class_pattern(self, cls: ast.expr, names: Iterable[str], positional: int) -> Value:
        kinds = self.visit(cls)
        check = frozenset([Known(isinstance)])
        self._proof.apply(check, Arguments((ANY, kinds)))
        known = [a.value for a in kinds if isinstance(a, Known)]
        found = frozenset(Data(kind) for kind in known)
        read = [self._proof.attribute(atom, name) for atom in found for name in names]
        for kind in known if positional else ():
            matched = inspect.getattr_static(kind, "__match_args__", ())[:positional]
            read += [self._proof.attribute(Data(kind), name) for name in matched]
        return found.union(ANY, *read)

    # Targets of assignments.

    def _assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                self._scope_of(name).add(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                found = elements(value)
                for part in parts:
                    if isinstance(part, ast.Starred):
                        self._assign(part.value, boxed(found, found))
                    else:
                        self._assign(part, found)
            case ast.Subscript(value=container, slice=key):
                self._used(container)
                self._used(key)
                check_simple(value, "keeps an object with code of its own in a container")
            case _:
                raise NotQuickError(f"sets an attribute: {ast.unparse(target)[:60]}")

    def _scope_of(self, name: str) -> Scope:
        # `:=` in a comprehension assigns in the function.
        return self._scope if name in self._scope.own else self._function

    # Expressions.

    def visit_Constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self._used(part.value)
                if part.format_spec is not None:
                    self.visit(part.format_spec)
        return frozenset([Data(str)])

    def visit_Name(self, node: ast.Name) -> Value:
        return self._scope.find(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.visit(node.value)
        self._function.add(node.target.id, value)
        return value

    def visit_Attribute(self, node: ast.Attribute) -> Value:
        found: Value = self.visit(node.value)
        return NOTHING.union(*(self._proof.attribute(atom, node.attr) for atom in found))

    def visit_Subscript(self, node: ast.Subscript) -> Value:
        owner = self._used(node.value)
        key = self._used(node.slice)
        if isinstance(node.slice, ast.Slice):
            return owner
        return self._items(owner, key)

    def _items(self, owner: Value, key: Value) -> Value:
        """Return items: of a TypedDict with the declared type of the key, if it is known."""
        text, found = text_of(key), NOTHING
        by_number = key == frozenset([Data(int)])
        for atom in owner:
            field = field_of(atom, text or "") if text is not None or by_number else None
            if by_number and field is not None:
                continue  # a TypedDict has no such key
            found |= items(frozenset([atom])) if field is None else field
        return found

    def visit_Slice(self, node: ast.Slice) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self._used(part)
        return ANY

    def visit_BinOp(self, node: ast.BinOp) -> Value:
        left, right = self._used(node.left), self._used(node.right)
        if isinstance(node.op, (ast.Pow, ast.LShift)):
            raise NotQuickError("computes powers, which may be huge")
        if isinstance(node.op, ast.Mult) and (_is_huge(node.left) or _is_huge(node.right)):
            raise NotQuickError("multiplies by a large number")
        return left | right

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Value:
        return self._used(node.operand) if not isinstance(node.op, ast.Not) else self._truth(node)

    def _truth(self, node: ast.UnaryOp) -> Value:
        self._used(node.operand)
        return frozenset([Data(bool)])

    def visit_BoolOp(self, node: ast.BoolOp) -> Value:
        return NOTHING.union(*(self._used(value) for value in node.values))

    def visit_Compare(self, node: ast.Compare) -> Value:
        by_identity = all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
        for part in (node.left, *node.comparators):
            _ = self.visit(part) if by_identity else self._used(part)
        return frozenset([Data(bool)])

    def visit_IfExp(self, node: ast.IfExp) -> Value:
        self._used(node.test)
        return self.visit(node.body) | self.visit(node.orelse)

    def visit_List(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        found = NOTHING.union(*map(self._element, node.elts))
        return boxed(found, found)

    visit_Tuple = visit_Set = visit_List

    def _element(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Starred):
            return elements(self._used(node.value))
        return self.visit(node)

    def visit_Dict(self, node: ast.Dict) -> Value:
        keys, values = NOTHING, NOTHING
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                spread = self._used(value)
                keys, values = keys | elements(spread), values | items(spread)
            else:
                keys, values = keys | self._used(key), values | self.visit(value)
        return boxed(keys, values)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        found = self._comprehension(node, [node.elt])
        return boxed(found, found)

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> Value:
        found = self._comprehension(node, [node.key, node.value])
        return boxed(found, found)

    def _comprehension(self, node: Any, made: list[ast.expr]) -> Value:
        scope, loops = self._scope, len(self._loops)
        self._scope = Scope(outer=scope, node=node)
        for generator in node.generators:
            if generator.is_async:
                raise NotQuickError("awaits")
            self._loop(generator.iter, generator.target)
            self._loops.append("")
            for condition in generator.ifs:
                self._used(condition)
        found = NOTHING.union(*map(self.visit, made))
        self._scope = scope
        del self._loops[loops:]
        return found

    # Calls.

    def visit_Call(self, node: ast.Call) -> Value:
        arguments = self._arguments(node)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func, arguments)
        if isinstance(node.func, ast.Name):
            name, callee = node.func.id, self._scope.find(node.func.id)
            if callee == frozenset([Known(getattr)]) or callee == frozenset([Known(hasattr)]):
                return self._getattr(node, arguments, name)
            if callee == frozenset([Known(range)]):
                return self._range(node)
        else:
            callee = self.visit(node.func)
        return self._call(node, callee, arguments)

    def _call(self, node: ast.Call, callee: Value, arguments: Arguments) -> Value:
        try:
            return self._proof.apply(callee, arguments)
        except NotQuickError as refused:
            raise self._with_name(node, refused) from None

    def _with_name(self, node: ast.Call, refused: NotQuickError) -> NotQuickError:
        """Complete a reason by the text of the call, unless it names a call already."""
        text, reason = ast.unparse(node.func)[:60], str(refused)
        return refused if "calls " in reason else NotQuickError(f"calls {text}: {reason}")

    def _arguments(self, node: ast.Call) -> Arguments:
        positional, rest = list[Value](), None
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                rest = (rest or NOTHING) | elements(self._used(arg.value))
            else:
                positional.append(self.visit(arg))
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                rest = (rest or NOTHING) | items(self._used(keyword.value))
            elif keyword.arg == "key":
                named["key"] = self._key(keyword.value)
            else:
                named[keyword.arg] = self.visit(keyword.value)
        return Arguments(tuple(positional), named, rest)

    def _key(self, node: ast.expr) -> Value:
        """Visit the `key=` of `max` and its kin; `key=counts.get` reads the dict `counts`."""
        if isinstance(node, ast.Attribute) and node.attr == "get":
            owner = self._used(node.value)
            if all(isinstance(atom, (Data, Container)) for atom in owner):
                return QUICK_KEY
        return self.visit(node)

    def _method(self, node: ast.Call, func: ast.Attribute, arguments: Arguments) -> Value:
        """Call a method: of data by its name, of an object as the function that it is."""
        found = NOTHING
        for atom in self.visit(func.value):
            owner = frozenset([atom])
            if isinstance(atom, Data):
                try:
                    known = self._proof.attribute(atom, func.attr)
                except NotQuickError as refused:
                    raise self._with_name(node, refused) from None
                if not known:
                    continue  # None has no methods
                if any(not isinstance(a, Data) for a in known):
                    found |= self._call(node, known, arguments)
                    continue
            if isinstance(atom, (Data, Container)):
                found |= self._data_method(owner, node, func, arguments)
            else:
                try:
                    callee = self._proof.attribute(atom, func.attr)
                except NotQuickError as refused:
                    raise self._with_name(node, refused) from None
                found |= self._call(node, callee, arguments)
        return found

    def _data_method(
        self, owner: Value, node: ast.Call, func: ast.Attribute, arguments: Arguments
    ) -> Value:
        if func.attr in GROWING and ast.dump(func.value) in self._loops:
            raise NotQuickError("makes a container larger while iterating over it")
        try:
            made = call_method(owner, func.attr, arguments, node.args, self._proof.apply)
        except NotQuickError as refused:
            raise self._with_name(node, refused) from None
        if func.attr in ("get", "pop") and arguments.positional:
            key, *default = arguments.positional
            return self._items(owner, key).union(*default)
        return made

    def _getattr(self, node: ast.Call, arguments: Arguments, name: str) -> Value:
        if len(node.args) < 2 or arguments.rest is not None:
            raise NotQuickError(f"calls {name}() with arguments that can't be followed")
        owner, text = arguments.positional[0], text_of(arguments.positional[1])
        if text is not None:
            found = [self._proof.attribute(atom, text) for atom in owner]
        else:
            check_simple(owner, f"calls {name}() with a name that isn't in the text")
            check_used(arguments.all())
            found = [ANY]
        if name == "hasattr":
            return frozenset([Data(bool)])
        return NOTHING.union(*found, *arguments.positional[2:])

    def _range(self, node: ast.Call) -> Value:
        if node.keywords or not all(self._is_small(arg) for arg in node.args):
            raise NotQuickError("calls range() with a number that may be large")
        return frozenset([Data(int)]) | ANY

    def _is_small(self, node: ast.expr) -> bool:
        """Whether a number is a small one of the text, or made of lengths."""
        match node:
            case ast.Constant(value=int(number)):
                return number <= _RANGE_MAX
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return self._is_small(part)
            case ast.BinOp(left=left, right=right, op=ast.Add() | ast.Sub() | ast.FloorDiv()):
                return self._is_small(left) and self._is_small(right)
            case ast.Call(func=ast.Name(id="len")):
                return self._scope.find("len") == frozenset([Known(len)])
            case ast.Call(func=ast.Name(id="min"), args=args):
                known = self._scope.find("min") == frozenset([Known(min)])
                return known and any(map(self._is_small, args))
            case _:
                return False


def _is_huge(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int(number) | float(number)):
            return number > _FACTOR_MAX
        case _:
            return False


def _loaded(target: ast.expr) -> ast.expr:
    """Make the expression that reads an assignment's target."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Subscript(value=value, slice=key):
            return ast.copy_location(ast.Subscript(value, key, ast.Load()), target)
        case _:
            raise NotQuickError(f"sets an attribute: {ast.unparse(target)[:60]}")
