"""Rewrite the LangGraph imports in the text of one module, and list what a person has to change.

Only imports are rewritten. LangGraph's deprecated arguments and attributes are not supported here:
a call with one would fail with a TypeError, so it is reported with its replacement.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
    **dict.fromkeys(("invoke", "ainvoke", "stream", "astream"), _RUN),
}
"""Function or method -> its old argument -> the replacement."""

ATTRIBUTES = {"interrupt_id": "id"}


def outdated(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Iterate over the uses of such names in a program: expression and remark."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name_of(node.func)
            known = ARGUMENTS.get(name, {})
            for keyword in node.keywords:
                if keyword.arg in known:
                    new = known[keyword.arg]
                    yield node, f"{name}({keyword.arg}=) is not supported here: write {new}"
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node, f".{node.attr} is .{ATTRIBUTES[node.attr]} here"


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


ROOT = "langgraph"
WIDTH = 88
NameMap = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to do by hand.

    Attributes:
        line: of the program, from 1.
        text: what to look at.
    """

    line: int
    text: str


@dataclass(slots=True)
class Rewritten:
    """A program after the rewrite.

    Attributes:
        text: of the program.
        remarks: in the order of lines.
    """

    text: str
    remarks: list[Remark] = field(default_factory=list[Remark])


def rewrite(source: str, homes: NameMap) -> Rewritten:
    """Rewrite a program's imports.

    Args:
        source: a Python program.
        homes: LangGraph module -> name -> dotted name here. A name that isn't in it keeps its
            import, with a remark.
    Raises:
        SyntaxError: it is not valid Python.
    """
    tree = ast.parse(source)
    work = _Rewriter(source, tree, homes)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            work.import_from(node)
        elif isinstance(node, ast.Import):
            work.import_modules(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            work.mention(node, node.value)
    if _uses(tree):
        for place, text in outdated(tree):
            work.remark(place, text)
    work.remarks.sort(key=lambda remark: remark.line)
    return Rewritten(work.done(), work.remarks)


@dataclass(slots=True)
class _ModuleUse:
    """A use of `module.name` through an imported module, and the name's equivalent here."""

    node: ast.Attribute
    module: str
    home: str


class _Rewriter:
    """Rewrites one program: collects edits by byte span, and applies them at the end.

    Byte spans, because the AST's columns count UTF-8 bytes.
    """

    def __init__(self, source: str, tree: ast.Module, homes: NameMap) -> None:
        self.data = source.encode()
        self.tree = tree
        self.homes = homes
        self.remarks: list[Remark] = []
        self.edits: dict[tuple[int, int], str] = {}
        self.whole = [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if _is_langgraph(alias.name) and not alias.asname
        ]
        self.lines = [0]
        for line in self.data.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def done(self) -> str:
        data = self.data
        for (start, end), text in sorted(self.edits.items(), reverse=True):
            data = data[:start] + text.encode() + data[end:]
        return data.decode()

    def remark(self, node: ast.stmt | ast.expr, text: str) -> None:
        self.remarks.append(Remark(node.lineno, text))

    def span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        start = self.lines[node.lineno - 1] + node.col_offset
        return start, self.lines[end_line - 1] + end_column

    def import_from(self, node: ast.ImportFrom) -> None:
        """`from langgraph... import a, b as c`."""
        module = node.module or ""
        if node.level or not _is_langgraph(module):
            return
        moved: dict[str, list[str]] = {}
        kept: list[str] = []
        lines: list[str] = []
        for alias in node.names:
            home = self.homes.get(module, {}).get(alias.name)
            path = f"{module}.{alias.name}"
            if home is not None:
                package, _, name = home.rpartition(".")
                moved.setdefault(package, []).append(_as(name, alias.asname or alias.name))
            elif self.is_module(path):
                lines += self.bound(node, path, alias.asname or alias.name)
            else:
                kept.append(_as(alias.name, alias.asname or alias.name))
                what = "all names" if alias.name == "*" else repr(alias.name)
                self.remark(node, f"{what} of {module} has no equivalent in actorgraph")
        originals = [_as(alias.name, alias.asname or alias.name) for alias in node.names]
        # All names move to one module unchanged: replace the module only, which keeps comments.
        if list(moved.values()) == [originals]:
            self.replace_module(node, module, *moved)
        elif moved or lines:
            lines += [_from(package, names, node.col_offset) for package, names in moved.items()]
            lines += [_from(module, kept, node.col_offset)] if kept else []
            self.replace(node, lines)

    def import_modules(self, node: ast.Import) -> None:
        """`import langgraph.graph`, `import langgraph.graph as g`."""
        if not any(_is_langgraph(alias.name) for alias in node.names):
            return
        lines: list[str] = []
        for alias in node.names:
            if not _is_langgraph(alias.name):
                lines.append(f"import {_as(alias.name, alias.asname or alias.name)}")
            elif alias.asname:
                lines += self.bound(node, alias.name, alias.asname)
            else:
                lines += self.unbound(node, alias.name)
        self.replace(node, list(dict.fromkeys(lines)))

    def bound(self, node: ast.stmt, module: str, local: str) -> list[str]:
        """Return the imports for a module that is bound to a local name."""
        uses, strange = self.uses(module, local)
        packages = [use.home.rpartition(".")[0] for use in uses]
        packages = packages or [_package(home) for home in self.homes.get(module, {}).values()]
        if strange or not packages:
            self.remark(node, strange or f"the module {module} has no equivalent in actorgraph")
            return [f"import {_as(module, local)}"]
        main = max(dict.fromkeys(packages), key=packages.count)
        lines = [f"import {_as(main, local)}"]
        for use in uses:
            package, _, name = use.home.rpartition(".")
            if package == main:
                self.edits[self.span(use.node)] = f"{local}.{name}"
            else:
                self.edits[self.span(use.node)] = use.home
                lines.append(f"import {package}")
        return lines

    def unbound(self, node: ast.stmt, module: str) -> list[str]:
        """Return the imports for `import langgraph.graph`, whose names are used by full path."""
        uses, strange = self.uses(ROOT, ROOT)
        if strange:
            self.remark(node, strange)
            return [f"import {module}"]
        for use in uses:
            self.edits[self.span(use.node)] = use.home
        others = [name for name in self.whole if name != module]
        mine = [use.home for use in uses if not any(use.module.startswith(o) for o in others)]
        mine = mine or [use.home for use in uses if use.module.startswith(module)]
        mine = mine or [*self.homes.get(module, {}).values()][:1]
        return [f"import {_package(home)}" for home in mine]

    def uses(self, module: str, local: str) -> tuple[list[_ModuleUse], str]:
        """Find the names that a program uses through a module.

        Returns: the uses, and a remark about a use that can't be rewritten (else "").
        """
        found: list[_ModuleUse] = []
        followed: set[int] = set()
        for node in ast.walk(self.tree):
            path, root = _path(node)
            if isinstance(node, ast.Attribute) and root is not None and root.id == local:
                package, _, name = f"{module}{path}".rpartition(".")
                if home := self.homes.get(package, {}).get(name):
                    found.append(_ModuleUse(node, package, home))
                    followed.add(id(root))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == local and id(node) not in followed:
                return [], f"line {node.lineno} uses the module {module} in an unsupported way"
        return found, ""

    def is_module(self, path: str) -> bool:
        return any(known == path or known.startswith(f"{path}.") for known in self.homes)

    def mention(self, node: ast.Constant, text: str) -> None:
        """Report a name in a string, such as the target of a mock, without changing it."""
        package, _, name = text.rpartition(".")
        if _is_langgraph(package) and (home := self.homes.get(package, {}).get(name)):
            self.remark(node, f"the string {text!r} names {home} of actorgraph")

    def replace_module(self, node: ast.ImportFrom, old: str, new: str) -> None:
        start, end = self.span(node)
        found = re.match(rb"from[\s\\]+", self.data[start:end])
        assert found is not None
        start += found.end()
        self.edits[start, start + len(old.encode())] = new

    def replace(self, node: ast.stmt, lines: Iterable[str]) -> None:
        """Replace a statement by several, on one line if it shares its line with others."""
        start, end = self.span(node)
        line_start = self.lines[node.lineno - 1]
        before = self.data[line_start:start].decode()
        after = self.data[end : self.lines[node.end_lineno or node.lineno]].strip()
        shared = before.strip() or after.startswith(b";")
        newline = "\r\n" if b"\r\n" in self.data else "\n"
        notes = [] if shared else [*_comments(self.data[start:end].decode())]
        texts = [" ".join(line.split()) if shared else line for line in [*notes, *lines]]
        if shared:
            texts = [text.replace("( ", "(").replace(", )", ")") for text in texts]
        separator = "; " if shared else f"{newline}{before}"
        text = separator.join(part.replace("\n", newline + before) for part in texts)
        self.edits[start, end] = text


def _uses(tree: ast.AST) -> bool:
    """Whether a program imports anything from LangGraph."""
    modules = (node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = (a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names)
    return any(map(_is_langgraph, [*modules, *names]))


def _is_langgraph(module: str) -> bool:
    return module == ROOT or module.startswith(f"{ROOT}.")


def _package(home: str) -> str:
    return home.rpartition(".")[0]


def _as(name: str, local: str) -> str:
    return name if name == local else f"{name} as {local}"


def _from(module: str, names: Iterable[str], indent: int) -> str:
    names = list(names)
    line = f"from {module} import {', '.join(names)}"
    if indent + len(line) <= WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _comments(text: str) -> Iterator[str]:
    """Iterate over the comments in an import; it has no strings, so each # begins a comment."""
    for line in text.split("\n"):
        _, mark, comment = line.partition("#")
        if mark:
            yield f"#{comment.rstrip()}"


def _path(node: ast.AST) -> tuple[str, ast.Name | None]:
    """Split a chain such as `g.a.b` into its dotted rest, ".a.b", and its root."""
    path = ""
    while isinstance(node, ast.Attribute):
        path = f".{node.attr}{path}"
        node = node.value
    return path, node if isinstance(node, ast.Name) else None
