"""Docstrings as Markdown: plain prose, with sections such as `Args:` and `Raises:`.

The style is Google's, set more tightly: a section may follow the line before it directly, and
`Returns: the answer.` may stay on one line. General readers of that style take such sections for
prose, so this module reads them itself.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

SECTIONS = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Keys": "Keys",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Warns": "Warns",
    "Source": "Source",
}
"""Word that opens a section -> the words above it in the page."""

OPENING = re.compile(rf"^({'|'.join(SECTIONS)}):(?:\s+(.*))?$")
ENTRY = re.compile(
    r"^(?P<names>\*{0,2}[A-Za-z_][\w.`]*(?:, *\*{0,2}[A-Za-z_][\w.`]*)*): +(?P<text>.*)$"
)
CODE = re.compile(r"(`+[^`]+`+)")
URL = re.compile(r"(https?://[^\s)>,;]+[^\s)>,;.])")
ROW = re.compile(r"^([A-Z][a-z]+) {2,}(\S.*)$")
SHELL = re.compile(r"(?:\$|python3?|pip|make|actorgraph|cd|[A-Z_]+=\S+) ?")
LIST_ITEM = re.compile(r"^(?:[-*]|\d+\.) ")


@dataclass
class Section:
    """A part of a docstring: its word ("" for the prose before the sections) and its lines."""

    word: str
    lines: list[str] = field(default_factory=list)


def sections(text: str) -> Iterator[Section]:
    """Split a docstring: first the prose, then each section with its lines, indent removed."""
    current = Section("")
    for line in inspect.cleandoc(text).splitlines():
        opening = OPENING.match(line)
        if opening:
            yield _finished(current)
            current = Section(opening[1], [opening[2]] if opening[2] else [])
        else:
            current.lines.append(line)
    yield _finished(current)


def _finished(section: Section) -> Section:
    if section.word and section.lines:
        first, rest = section.lines[0], section.lines[1:]
        cleaned = inspect.cleandoc("\n" + "\n".join(rest)).splitlines() if rest else []
        if first.startswith(" "):  # the section's text is below its word
            cleaned = inspect.cleandoc("\n" + "\n".join(section.lines)).splitlines()
            return Section(section.word, cleaned)
        return Section(section.word, [first, *cleaned])
    return section


def entries(section: Section) -> list[tuple[str, str]]:
    """The `name: text` entries of a section; one entry without a name if it has none."""
    found: list[tuple[str, list[str]]] = []
    for line in section.lines:
        entry = None if line.startswith(" ") else ENTRY.match(line)
        if entry:
            found.append((entry["names"], [entry["text"]]))
        elif found:
            found[-1][1].append(line.strip())
        elif line.strip():
            found.append(("", [line.strip()]))
    return [(names, " ".join(lines).strip()) for names, lines in found]


def inline(text: str) -> str:
    """Prose for Markdown: what is not code loses its special meaning."""
    parts = CODE.split(text)
    return "".join(part if index % 2 else _plain(part) for index, part in enumerate(parts))


def _plain(text: str) -> str:
    parts = URL.split(text)
    return "".join(f"<{part}>" if index % 2 else _escaped(part) for index, part in enumerate(parts))


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\*_\[\]~^=]{1})", r"\\\1", text)


def prose(lines: list[str]) -> str:
    """Paragraphs, lists, tables and indented blocks of a docstring as Markdown."""
    return "\n\n".join(filter(None, map(_paragraph, _paragraphs(lines))))


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Blocks between empty lines; an indented block, which may have empty lines, is one."""
    block: list[str] = []
    for number, line in enumerate([*lines, ""]):
        inner = bool(block) and block[0].startswith("    ")
        following = next((x for x in lines[number:] if x.strip()), "")
        if line.strip() and (not block or inner == line.startswith("    ") or not inner):
            block.append(line)
        elif inner and not line.strip() and following.startswith("    "):
            block.append("")
        else:
            if block:
                yield block
            block = [line] if line.strip() else []


def _paragraph(block: list[str]) -> str:
    if block[0].startswith("    "):
        code = inspect.cleandoc("\n" + "\n".join(block))
        return f"```{'sh' if SHELL.match(code) else 'python'}\n{code}\n```"
    if ROW.match(block[0]):
        return _rows(block)
    if block[0].startswith(("|", "```")):
        return "\n".join(block)
    if any(LIST_ITEM.match(line) for line in block):
        return _list(block)
    text, rest = [], list(block)
    while rest and not rest[0].startswith("    "):
        text.append(rest.pop(0))
    words = inline(" ".join(line.strip() for line in text)).removesuffix("::")
    return words + (f"\n\n{_paragraph(rest)}" if rest else "")


def _rows(block: list[str]) -> str:
    """`Word    text` in columns, as headers of modules have it: a list."""
    items: list[list[str]] = []
    for line in block:
        row = ROW.match(line)
        if row:
            items.append([row[1], row[2]])
        else:
            items[-1].append(line.strip())
    return "\n".join(f"- **{word}**: {inline(' '.join(rest))}" for word, *rest in items)


def _list(block: list[str]) -> str:
    items: list[str] = []
    lead: list[str] = []
    for line in block:
        if LIST_ITEM.match(line):
            items.append(line)
        elif items:
            items[-1] += " " + line.strip()
        else:
            lead.append(line.strip())
    shown = []
    for item in items:
        mark, _, words = item.partition(" ")
        shown.append(f"{mark} {inline(words)}")
    return "\n\n".join(filter(None, [inline(" ".join(lead)), "\n".join(shown)]))


def summary(text: str) -> str:
    """The first sentence of a docstring, or its first paragraph, as Markdown."""
    first = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return inline(re.split(r"(?<=[.])\s(?=[A-Z`])", first)[0])


def markdown(text: str, types: dict[str, str] | None = None) -> str:
    """A whole docstring; `types` gives the annotation of an argument, shown after its name."""
    parts = []
    for section in sections(text):
        if not section.word:
            parts.append(prose(section.lines))
            continue
        heading = f"**{SECTIONS[section.word]}**"
        found = entries(section)
        if all(not names for names, _ in found):
            parts.append(f"{heading}: {inline(' '.join(text for _, text in found))}")
            continue
        lines = [_entry(names, words, types or {}) for names, words in found]
        parts.append(heading + "\n\n" + "\n".join(lines))
    return "\n\n".join(filter(None, parts))


def _entry(names: str, words: str, types: dict[str, str]) -> str:
    if not names:
        return f"- {inline(words)}"
    each = [name.strip("`* ") for name in names.split(",")]
    shown = ", ".join(f"`{name.strip().strip('`')}`" for name in names.split(","))
    kinds = types.get(each[0], "") if len(each) == 1 else ""
    kind = f" <span class=ag-type>{_code(kinds)}</span>" if kinds else ""
    return f"- {shown}{kind}: {inline(words)}"


def _code(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        f"<code>{escaped}</code>".replace("|", "&#124;")
        .replace("*", "&#42;")
        .replace("_", "&#95;")
        .replace("[", "&#91;")
        .replace("]", "&#93;")
    )
