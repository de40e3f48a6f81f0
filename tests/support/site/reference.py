"""The pages of the reference: every public name with its signature, its types and its docstring.

One page per module of `names_page.HOMES`, and one for the root. A name is explained once, on the
page of the first module that has it; the other pages link there.
"""

import ast
import enum
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import actorgraph
from tests.support.names_page import HOMES, exported
from tests.support.site import signatures
from tests.support.site.docstring_markdown import CODE, markdown, sections, summary

FOLDER = "reference/api"
GROUPS = {
    "Graphs": ("graph", "types", "channels", "functional", "streams", "messages"),
    "Agents and memory": ("prebuilt", "sessions", "stores", "caches"),
    "Storage": ("checkpoints", "codec", "migrate"),
    "Running": ("systems", "dispatch", "web", "studio"),
    "Everything else": ("errors", "testing", "testing.conformance", "compat"),
}
"""Title -> modules, in the order of the navigation. `modules()` adds those that are missing."""

EXAMPLES = ("SqliteSaver",)
"""Classes that explain the methods which they share with others."""

BACKENDS = "actorgraph.savers."
"""Methods of these modules are the runtime's side of a saver: `ports.Saver` explains them."""

SPAN = re.compile(r"(?<![`\w\[])`([A-Za-z_][\w.]*)(\(\))?`(?![`\w\]])")
HEADING = re.compile(r"^#+ ")


@dataclass(frozen=True)
class Place:
    """Where a name is explained: the module's page and the anchor."""

    module: str
    anchor: str


def modules() -> list[str]:
    """The modules that have a page, the root ("") first."""
    known = [name for group in GROUPS.values() for name in group]
    return ["", *(n for n in known if n in HOMES), *(n for n in HOMES if n not in known)]


def page_of(module: str) -> str:
    """The page of a module, from the site's root."""
    return f"{FOLDER}/{module or 'actorgraph'}.md"


def full_name(module: str) -> str:
    """The module as programs import it."""
    return f"actorgraph.{module}" if module else "actorgraph"


def names_of(module: str) -> list[str]:
    """The public names of a module."""
    return list(exported(module)) if module else list(actorgraph.__all__)


def object_of(module: str, name: str) -> Any:
    """The object that a module exports under a name."""
    return getattr(import_module(full_name(module)), name)


@cache
def places() -> dict[tuple[str, str], Place]:
    """(module, name) -> the place that explains the name."""
    found: dict[tuple[str, str], Place] = {}
    first: dict[str, list[tuple[Any, Place]]] = {}
    for module in [*HOMES, ""]:
        for name in names_of(module):
            thing = object_of(module, name)
            known = next((p for o, p in first.get(name, []) if o is thing), None)
            place = known or Place(module, name)
            first.setdefault(name, []).append((thing, place))
            found[module, name] = place
    return found


@cache
def _by_object() -> dict[int, tuple[Place, str]]:
    return {
        id(object_of(module, name)): (place, name)
        for (module, name), place in places().items()
        if place.module == module and inspect.isclass(object_of(module, name))
    }


def pages() -> dict[str, str]:
    """Path -> Markdown of every page of the reference."""
    made = {page_of(module): linked(_page(module), module) for module in modules()}
    made[f"{FOLDER}/index.md"] = _index()
    return made


def own_names(module: str) -> list[str]:
    """The names that the module's page explains itself."""
    return [name for name in names_of(module) if places()[module, name].module == module]


def _index() -> str:
    lines = ["# Reference", "", INDEX.strip(), ""]
    done: set[str] = set()
    groups = {"Root": ("",), **GROUPS}
    rest = tuple(m for m in modules() if not any(m in group for group in groups.values()))
    for title, group in {**groups, "More": rest}.items():
        members = [m for m in group if m in modules() and m not in done]
        if not members:
            continue
        done.update(members)
        lines += [f"## {title}", "", "| module | purpose |", "|---|---|"]
        for module in members:
            text = summary(import_module(full_name(module)).__doc__ or "")
            lines.append(
                f"| [`{full_name(module)}`]({module or 'actorgraph'}.md) | {_cell(text)} |"
            )
        lines.append("")
    return "\n".join(lines)


INDEX = """
Every public name, made from the docstrings of the code. `from actorgraph import ...` finds the
names of a first program; the others are in the modules below. The [list of names](../names.md)
shows all of them on one page. Names that are not here are internal and may change.
"""


def _page(module: str) -> str:
    docstring = import_module(full_name(module)).__doc__ or ""
    parts = [f"# `{full_name(module)}`", markdown(docstring)]
    own = own_names(module)
    if module == "":
        parts.append(_root_tables())
    else:
        parts.append(_table([(name, module) for name in names_of(module)], module))
    parts += [_entry(module, name) for name in own]
    return "\n\n".join(filter(None, parts)) + "\n"


def _root_tables() -> str:
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in names_of(""):
        groups.setdefault(places()["", name].module, []).append((name, ""))
    parts = []
    for module in sorted(groups, key=modules().index):
        title = f"Also in `{full_name(module)}`" if module else "Here only"
        parts += [f"## {title}", _table(groups[module], "")]
    return "\n\n".join(parts)


def _table(names: list[tuple[str, str]], here: str) -> str:
    lines = ["| name | purpose |", "|---|---|"]
    for name, module in names:
        place = places()[module, name]
        thing = object_of(module, name)
        text = summary(docstring_of(thing, module, name)) or f"`{_shown_value(thing)}`"
        lines.append(f"| [`{name}`]({link(place, here)}) | {_cell(text)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text for a cell of a table; a pipe in code needs no mark there."""
    parts = CODE.split(text.replace("\n", " "))
    return "".join(p if n % 2 else p.replace("|", "&#124;") for n, p in enumerate(parts))


def link(place: Place, here: str) -> str:
    """The address of a place, from the page of a module."""
    page = "" if place.module == here else Path(page_of(place.module)).name
    return f"{page}#{place.anchor}"


def docstring_of(thing: Any, module: str, name: str) -> str:
    """The docstring of a class or function; of a value, the string below its assignment."""
    if inspect.isclass(thing) or inspect.isroutine(thing):
        text = inspect.getdoc(thing) or ""
        return "" if text.startswith(f"{name}(") else text
    return _string_below(full_name(module), name) or ""


@cache
def _module_tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def _string_below(module: str, name: str) -> str | None:
    """The string below `name = ...` in a module, or in the one that it imports the name from."""
    body = list(ast.walk(_module_tree(module)))
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module.startswith("actorgraph"):
                    return _string_below(node.module, alias.name)
    top = _module_tree(module).body
    for node, following in zip(top, [*top[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            value = getattr(following, "value", None)
            if isinstance(following, ast.Expr) and isinstance(value, ast.Constant):
                return str(value.value)
    return None


def _entry(module: str, name: str) -> str:
    thing = object_of(module, name)
    head = f'## `{name}` {{ #{name} data-toc-label="{name}" }}'
    if inspect.isclass(thing):
        return "\n\n".join([head, *_class(thing, name)])
    if inspect.isroutine(thing):
        return "\n\n".join([head, *_function(thing, name)])
    text = docstring_of(thing, module, name)
    return "\n\n".join([head, _code(f"{name} = {_shown_value(thing)}"), markdown(text)])


def _shown_value(thing: Any) -> str:
    if isinstance(thing, str | tuple | list):
        text = repr(
            [getattr(x, "__name__", x) for x in thing] if isinstance(thing, list) else thing
        )
    elif type(thing).__module__.startswith("actorgraph"):
        return type(thing).__name__ + "()"
    else:
        text = signatures.short_type(str(thing))
    return text if len(text) < 400 else text[:400] + " ..."


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _function(function: Callable[..., Any], name: str, *, bound: bool = False) -> Iterator[str]:
    shown = signatures.of_function(function, name, bound=bound)
    yield _code("\n".join(shown) or name)
    plain = signatures.plain_function(function)
    yield markdown(inspect.getdoc(function) or "", signatures.annotations(plain))


def _class(kind: type, name: str) -> Iterator[str]:
    yield _code(signatures.of_class(kind, name) if _constructed(kind) else f"class {name}")
    bases = [found for base in kind.__bases__ if (found := _base(base))]
    if bases:
        yield f"Base: {', '.join(bases)}."
    text = docstring_of(kind, "", name)
    yield markdown(text, _class_types(kind))
    yield _fields(kind, text)
    yield from _members(kind, name)


def _constructed(kind: type) -> bool:
    return not (issubclass(kind, enum.Enum) or getattr(kind, "_is_protocol", False))


def _base(base: type) -> str:
    if id(base) in _by_object():
        place, name = _by_object()[id(base)]
        return f"[`{name}`]({Path(page_of(place.module)).name}#{place.anchor})"
    plain = base.__module__ == "builtins" and base is not object
    return f"`{base.__name__}`" if plain else ""


def _class_types(kind: type) -> dict[str, str]:
    types = {}
    for each in reversed(kind.__mro__):
        for field, annotation in vars(each).get("__annotations__", {}).items():
            types[field] = signatures.short_type(annotation)
        if "__init__" in vars(each) and getattr(each, "__module__", "").startswith("actorgraph"):
            types |= signatures.annotations(vars(each)["__init__"])
    return types


def _fields(kind: type, text: str) -> str:
    if issubclass(kind, enum.Enum):
        return "\n".join(f"- `{member.name}`: `{member.value!r}`" for member in kind)
    if any(section.word in ("Attributes", "Keys", "Args") for section in sections(text)):
        return ""
    fields = getattr(kind, "_fields", ()) or getattr(kind, "__struct_fields__", ())
    fields = fields or tuple(getattr(kind, "__dataclass_fields__", ()))
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = tuple(hints)
    types = _class_types(kind)
    shown = [(f, types.get(f, "")) for f in fields if not f.startswith("_")]
    return "\n".join(f"- `{field}`" + (f": `{t}`" if t else "") for field, t in shown)


def _members(kind: type, name: str) -> Iterator[str]:
    elsewhere: dict[tuple[Place, str], list[str]] = {}
    for owner, member, value in _methods(kind):
        public = _by_object().get(id(owner)) if owner is not kind else None
        place, shown = public or _shared().get((owner, member)) or (None, name)
        if place is None or shown == name:
            yield from _member(kind, name, member, value)
        else:
            elsewhere.setdefault((place, shown), []).append(member)
    for (place, shown), members in elsewhere.items():
        page = Path(page_of(place.module)).name
        links = [f"[`{m}`]({page}#{shown}.{m})" for m in sorted(members)]
        yield f"As in `{shown}`: {', '.join(links)}."


def _methods(kind: type) -> Iterator[tuple[type, str, Any]]:
    """The public methods and properties of a class, with the class that has their code."""
    seen: set[str] = set()
    for owner in kind.__mro__:
        if not owner.__module__.startswith("actorgraph") or owner.__module__.startswith(BACKENDS):
            continue
        for member, value in vars(owner).items():
            if not member.startswith("_") and member not in seen and _is_method(value):
                seen.add(member)
                yield owner, member, value


@cache
def _shared() -> dict[tuple[type, str], tuple[Place, str]]:
    """(internal class, method) -> the public class that explains a method of several classes."""
    found: dict[tuple[type, str], tuple[Place, str]] = {}
    classes = sorted(_by_object().values(), key=lambda each: (each[1] not in EXAMPLES, each[1]))
    for place, name in classes:
        for owner, member, _ in _methods(object_of(place.module, name)):
            if id(owner) not in _by_object():
                found.setdefault((owner, member), (place, name))
    return found


def _is_method(value: Any) -> bool:
    plain = signatures.plain_function(value)
    return inspect.isfunction(plain) or isinstance(value, property)


def _member(kind: type, name: str, member: str, value: Any) -> Iterator[str]:
    yield f'### `{name}.{member}` {{ #{name}.{member} data-toc-label=".{member}" }}'
    shown = getattr(kind, member, value)
    text = inspect.getdoc(shown) or inspect.getdoc(value) or ""
    plain = signatures.plain_function(value)
    if isinstance(value, property):
        node = signatures.function_node(plain)
        kind_of = signatures.written(node.returns) if node and node.returns else "Any"
        yield _code(f"{member}: {kind_of}")
        yield markdown(text)
        return
    yield _code("\n".join(signatures.of_function(value, member, bound=True)) or member)
    yield markdown(text, signatures.annotations(plain))


def linked(text: str, here: str) -> str:
    """Link the public names that a page mentions in code to the place that explains them."""
    known = {name: place for (_, name), place in places().items()}
    lines, fenced = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        if (
            fenced
            or HEADING.match(line)
            or line.startswith(("| [`", "Base: ", "As in `", "class "))
        ):
            lines.append(line)
            continue
        lines.append(SPAN.sub(lambda found: _linked(found, known, here), line))
    return "\n".join(lines)


def _linked(found: re.Match[str], known: dict[str, Place], here: str) -> str:
    name, called = found[1], found[2] or ""
    first = name.partition(".")[0]
    if name in known and (called or name[:1].isupper()):
        return f"[`{name}{called}`]({link(known[name], here)})"
    if first in known and first[:1].isupper() and inspect.isclass(_class_named(first, known)):
        anchor = name if name in _anchors(first, known) else first
        return f"[`{name}{called}`]({link(Place(known[first].module, anchor), here)})"
    return found[0]


def _class_named(name: str, known: dict[str, Place]) -> Any:
    return object_of(known[name].module, name)


@cache
def _member_anchors(module: str, name: str) -> frozenset[str]:
    kind = object_of(module, name)
    text = "\n".join(_members(kind, name))
    return frozenset(re.findall(r"\{ #([\w.]+) ", text))


def _anchors(name: str, known: dict[str, Place]) -> frozenset[str]:
    return _member_anchors(known[name].module, name)
