"""Rewrite the LangGraph imports in the text of one module, and list what a person has to change.

Only imports are rewritten. Uses that the moved program would break on are reported with their
replacement; see `checks`.
"""

import ast
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from actorgraph.cli import checks
from actorgraph.cli.findings import COMPAT, Remark, without_home
from actorgraph.cli.objects import Modules, objects_of

ROOT = "langgraph"
WIDTH = 88
NameMap = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class Rewritten:
    """A program after the rewrite.

    Attributes:
        text: of the program.
        remarks: in the order of lines; notes too.
    """

    text: str
    remarks: list[Remark] = field(default_factory=list[Remark])


def rewrite(
    source: str, homes: NameMap, elsewhere: Modules | None = None, own: Container[str] = ()
) -> Rewritten:
    """Rewrite a program's imports.

    Args:
        source: a Python program.
        homes: LangGraph module -> name -> dotted name here. A name that isn't in it keeps its
            import, with a remark.
        elsewhere: the graphs of the program's other files.
        own: packages that are part of the program.
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
    work.check(elsewhere, own)
    work.remarks.sort(key=lambda remark: remark.line)
    return Rewritten(work.done(), list(dict.fromkeys(work.remarks)))


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
        self.bindings: dict[str, str] = {}
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

    def remark(self, node: ast.stmt | ast.expr, text: str, do: str = "") -> None:
        self.remarks.append(Remark(node.lineno, text, do))

    def check(self, elsewhere: Modules | None, own: Container[str]) -> None:
        """Report the uses that the moved program would break on."""
        objects = objects_of(self.tree, elsewhere)
        if _uses(self.tree):
            self.remarks.extend(checks.outdated(self.tree))
            self.remarks.extend(checks.misfits(self.tree, self.bindings, objects))
        if _uses(self.tree) or objects.graphs:
            self.remarks.extend(checks.blocking_calls(self.tree, objects))
            self.remarks.extend(checks.flat_configs(self.tree, objects))
        self.remarks.extend(checks.packages(self.tree, own))
        self.remarks.extend(checks.modules_by_name(self.tree, self.is_module))

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
                self.bindings[alias.asname or alias.name] = home
            elif self.is_module(path):
                lines += self.bound(node, path, alias.asname or alias.name)
            else:
                kept.append(_as(alias.name, alias.asname or alias.name))
                self.remarks.append(replace(without_home(module, alias.name), line=node.lineno))
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
            self.remark(
                node, strange or f"the module {module} has no equivalent in actorgraph", COMPAT
            )
            return [f"import {_as(module, local)}"]
        main = max(dict.fromkeys(packages), key=packages.count)
        lines = [f"import {_as(main, local)}"]
        for use in uses:
            package, _, name = use.home.rpartition(".")
            self.bindings[ast.unparse(use.node)] = use.home
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
            self.bindings[ast.unparse(use.node)] = use.home
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
