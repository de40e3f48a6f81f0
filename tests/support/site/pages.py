"""The pages of the site as Markdown: those of `docs/`, those beside it, the examples.

Pages are written for the forge, where links lead through the repository. Here a link to a file that
has a page of its own leads to that page; a link to any other file becomes its text.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from tests.support.site import reference
from tests.support.site.docstring_markdown import markdown, summary
from tests.support.site.navigation import section_list
from tests.support.source_files import ROOT

BESIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "tests/README.md": "tests.md",
}
"""Page outside of `docs/` -> its path on the site."""

SAME = {"README.md": "index.md", "docs/reference/api": "reference/api/index.md"}
"""Path in the repository -> the page of the site in its place."""

SECTIONS = "<!-- sections of the site -->"
FOR_MODELS = """

For language models: [`llms.txt`](llms.txt) lists the pages, [`llms-full.txt`](llms-full.txt) has
the guides in one file, and each page is there as Markdown too, with `.md` in place of `.html`.
"""
EXAMPLES = "# Examples\n\nPrograms of the repository, run by its tests.\n"
INCLUDE = re.compile(r"^<!-- include: (?P<path>\S+) (?P<heading>.+) -->$", re.MULTILINE)
COMMENT = re.compile(r"<!--(?! include: | sections of ).*?-->\n?", re.DOTALL)
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
CODE = re.compile(r"`+[^`]*`+")
FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>```+|~~~+) *(?P<info>.*)$")
HEADING = re.compile(r"^(#{1,6}) (?P<words>.*?)(?P<id> *\{ *#[^}]*\})?$", re.MULTILINE)


def source_pages() -> dict[str, tuple[str, str]]:
    """Page of the site -> (file in the repository, its text), without those made of code."""
    found = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        inside = path.relative_to(ROOT / "docs")
        shown = inside.with_name("index.md") if inside.name == "README.md" else inside
        found[shown.as_posix()] = (f"docs/{inside.as_posix()}", path.read_text("utf-8"))
    for name, shown in BESIDE.items():
        found[shown] = (name, (ROOT / name).read_text("utf-8"))
    return found


def assets() -> list[Path]:
    """The pictures of `docs/`."""
    return [p for p in sorted((ROOT / "docs").rglob("*")) if p.suffix in {".png", ".svg", ".webp"}]


def all_pages() -> dict[str, str]:
    """Path on the site -> Markdown of every page, with links that lead through the site."""
    sources, examples = source_pages(), dict(_examples())
    homes = {file: shown for shown, (file, _) in sources.items()} | SAME
    homes |= {file: shown for shown, (file, _) in examples.items()}
    made = {
        shown: included(moved(text, file, shown, homes), shown, homes)
        for shown, (file, text) in (sources | examples).items()
    }
    made |= reference.pages()
    made["index.md"] = made["index.md"].replace(SECTIONS, section_list(made) + FOR_MODELS)
    return made


def _examples() -> Iterator[tuple[str, tuple[str, str]]]:
    """A page for each example: its docstring and its code."""
    rows = []
    files = [*sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "examples").glob("*/*.py"))]
    for path in files:
        inside = path.relative_to(ROOT)
        source = path.read_text("utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        if not docstring or path.name.startswith("_"):
            continue
        name = inside.relative_to("examples").as_posix()
        shown = f"examples/{name.removesuffix('.py')}.md"
        body = f'# {name}\n\n{markdown(docstring)}\n\n```python title="{inside}"\n'
        yield shown, (inside.as_posix(), f"{body}{source.rstrip()}\n```\n")
        rows.append(f"| [{name}]({inside.relative_to('examples')}) | {summary(docstring)} |")
    home = ROOT / "examples" / "README.md"
    text = home.read_text("utf-8") if home.is_file() else EXAMPLES
    text += "\n## Every file\n\n| file | purpose |\n|---|---|\n"
    yield "examples/index.md", ("examples/README.md", text + "\n".join(rows) + "\n")


def included(text: str, shown: str, homes: dict[str, str]) -> str:
    """Put sections of other pages where `<!-- include: PATH HEADING -->` asks for them."""

    def found_section(found: "re.Match[str]") -> str:
        words = section(ROOT / found["path"], found["heading"])
        return moved(words, found["path"], shown, homes)

    return INCLUDE.sub(found_section, text)


def section(path: Path, title: str) -> str:
    """The text below a heading of a page, up to the next heading of its level."""
    text = path.read_text("utf-8")
    level, start = next(
        (len(m[1]), m.end())
        for m in re.finditer(r"^(#+) (.*)$", text, re.MULTILINE)
        if m[2] == title
    )
    rest = text[start:]
    end = re.search(rf"^#{{1,{level}}} ", rest, re.MULTILINE)
    return rest[: end.start() if end else None].strip()


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change the paragraphs of a page that are not in a fenced block."""
    made, prose, opening = [], [], None

    def paragraphs() -> str:
        changed = "\n\n".join(map(change, "\n".join(prose).split("\n\n")))
        prose.clear()
        return changed

    for line in text.splitlines():
        fence = FENCE.match(line)
        if opening is None and fence:
            opening = fence["ticks"]
            made += [paragraphs(), _fence(fence)]
        elif opening is not None:
            made.append(line)
            if fence and fence["ticks"].startswith(opening) and not fence["info"]:
                opening = None
        else:
            prose.append(line)
    return "\n".join([*made, paragraphs()]) + "\n"


def _fence(fence: "re.Match[str]") -> str:
    """A fence with its language and title; the words for tests are left out."""
    language, *rest = fence["info"].split(maxsplit=1) or [""]
    title = re.search(r'title="[^"]*"', rest[0]) if rest else None
    return f"{fence['indent']}{fence['ticks']}{language}{' ' + title[0] if title else ''}"


def moved(text: str, file: str, shown: str, homes: dict[str, str]) -> str:
    """A page at its place on the site: links, anchors of headings, no comments.

    Args:
        file: where the repository has the page.
        shown: where the site has it.
        homes: file of the repository -> page of the site.
    """
    seen: dict[str, int] = {}

    def headings(found: "re.Match[str]") -> str:
        return found[0] if found["id"] else f"{found[0]} {{ #{anchor(found['words'], seen)} }}"

    def paragraph(words: str) -> str:
        return HEADING.sub(headings, _links(words, file, shown, homes))

    return outside_code(COMMENT.sub("", text), paragraph)


def anchor(words: str, seen: dict[str, int]) -> str:
    """The anchor of a heading, as the forge makes it."""
    plain = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
    number = seen.get(plain, 0)
    seen[plain] = number + 1
    return f"{plain}-{number}" if number else plain


def _links(words: str, file: str, shown: str, homes: dict[str, str]) -> str:
    """Move the links of a paragraph, but not what is in code."""
    codes: list[str] = []

    def hide(found: "re.Match[str]") -> str:
        codes.append(found[0])
        return f"\x00{len(codes) - 1}\x00"

    words = LINK.sub(lambda found: _moved_link(found, file, shown, homes), CODE.sub(hide, words))
    return re.sub("\x00(\\d+)\x00", lambda found: codes[int(found[1])], words)


def _moved_link(found: "re.Match[str]", file: str, shown: str, homes: dict[str, str]) -> str:
    target, text = found["target"], found["text"]
    if re.match(r"^(?:[a-z]+:|#)", target):
        return found[0]
    path, _, fragment = target.partition("#")
    there = normpath((PurePosixPath(file).parent / path).as_posix())
    if there in homes:
        home = homes[there]
    elif there.startswith("docs/") and (ROOT / there).is_file():
        home = there.removeprefix("docs/")
    else:
        return text
    address = relpath(home, PurePosixPath(shown).parent.as_posix())
    return f"{found['mark']}[{text}]({address}{'#' + fragment if fragment else ''})"
