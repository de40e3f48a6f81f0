"""The documentation runs: every Python block, and every example.

The ```python blocks of one file are one program, top to bottom: later blocks use earlier names.
A block marked ```python no-run is only compiled; one with a title is a file that the transcripts
of the page use (test_transcripts.py). Programs run in an empty folder, in a process
of their own, as a reader would run them; lines keep their numbers, so that a traceback points
into the Markdown file. Warnings are errors.
"""

import os
import re
import subprocess
import sys
from textwrap import dedent

import pytest

from tests.docs.blocks import blocks
from tests.support.source_files import ROOT

SECONDS_MAX = 120
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
CODE = re.compile(r"`[^`]*`")

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "examples" / "README.md",
]


def program(text):
    """The blocks that run, as one program, each on the line where the page has it."""
    lines = [""] * len(text.splitlines())
    for block in blocks(text):
        if block.runs:
            lines[block.first : block.first + len(block.lines)] = block.lines
    return "\n".join(lines) + "\n"


def prose(text):
    """The lines of a Markdown text outside of its fenced blocks."""
    lines = text.splitlines()
    for block in blocks(text):
        lines[block.first : block.first + len(block.lines)] = [""] * len(block.lines)
    return lines


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = [
        line.lstrip("#").strip() for line in prose(page.read_text("utf-8")) if line[:1] == "#"
    ]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    """The links of a page to files that are not there, or to headings that they don't have."""
    for link in LINK.finditer(CODE.sub("", "\n".join(prose(page.read_text("utf-8"))))):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        anchor = link["anchor"]
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {link[0][2:-1]}"


def run_python(*arguments, cwd, seconds_max=SECONDS_MAX):
    """Run Python as a reader would, warnings being errors; return what it printed."""
    outside = {name: text for name, text in os.environ.items() if not name.startswith("OPENAI_")}
    environment = {**outside, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=seconds_max,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


PROGRAMS = [p for p in PAGES if any(b.compiles for b in blocks(p.read_text("utf-8")))]
"""The pages with Python; the others have nothing that could run."""


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.relative_to(ROOT).as_posix())
class TestPages:
    def test_every_block_compiles(self, page):
        """
        Each Python block is Python, those that are not run too.
        """
        for block in blocks(page.read_text("utf-8")):
            if block.compiles:
                where = f"{page.name}, block at line {block.first + 1}"
                compile("\n" * block.first + "\n".join(block.lines), where, "exec")

    def test_the_page_runs(self, page, tmp_path):
        """
        The blocks of a page, run top to bottom in an empty folder, raise nothing.
        """
        text = program(page.read_text("utf-8"))
        script = tmp_path / page.name
        script.write_text(text, "utf-8")
        folder = tmp_path / "empty"
        folder.mkdir()

        if text.strip():
            run_python(script, cwd=folder)


class TestAllPages:
    def test_every_block_is_closed(self):
        """
        Each fenced block of each page ends, so the text after it is text.
        """
        found = [block for page in PAGES for block in blocks(page.read_text("utf-8"))]

        assert len(found) > 50

    def test_every_link_leads_somewhere(self):
        """
        A relative link names a file that is there, and a heading that it has.
        """
        assert [link for page in PAGES for link in broken_links(page)] == []


class TestExtraction:
    PAGE = dedent(
        """\
        ```python
        a = 1
        ```
        ```python no-run
        wait_forever()
        ```
        ```console
        $ make demo
        ```
        1. a list
           ```python
           if a:
               b = a
           ```
        """
    )

    def test_blocks_become_one_program_that_keeps_its_lines(self):
        """
        Only blocks marked plainly as Python run, each on its line of the page.
        """
        lines = program(self.PAGE).splitlines()

        assert [(n, x) for n, x in enumerate(lines, 1) if x] == [
            (2, "a = 1"),
            (12, "if a:"),
            (13, "    b = a"),
        ]

    def test_a_block_that_is_not_run_is_known(self):
        """
        no-run blocks are compiled, foreign ones ignored.
        """
        assert [b.compiles for b in blocks(self.PAGE)] == [True, True, False, True]

    def test_a_failing_page_fails(self, tmp_path):
        """
        An exception, or a warning, in a page fails its test and names the line of the page.
        """
        for line in ("1 / 0", "import warnings; warnings.warn('old')"):
            page = tmp_path / "page.md"
            page.write_text(program(f"# Title\n\n```python\n{line}\n```\n"), "utf-8")

            with pytest.raises(AssertionError, match=r'page\.md", line 4'):
                run_python(page, cwd=tmp_path)


def test_the_readme_exists():
    """
    The first page that a reader opens is there, and so are its blocks for the tests above.
    """
    assert (ROOT / "README.md") in PAGES


ALONE = [
    *sorted((ROOT / "examples" / "from_langgraph").glob("*.py")),
    *(p for p in sorted((ROOT / "examples" / "agents").glob("*.py")) if p.stem != "fake_model"),
]
"""Examples that are started without an argument, and end by themselves."""


@pytest.mark.parametrize("example", ALONE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_runs_alone(example, tmp_path):
    """
    Offline, in an empty folder and within a minute, an example ends well and prints something.
    """
    first, *_ = example.read_text("utf-8").split("\n", 1)
    command = f"python examples/agents/{example.name}"

    assert first.startswith('"""')
    assert example.parent.name != "agents" or command in example.read_text("utf-8")
    assert run_python(example, cwd=tmp_path, seconds_max=60).strip()


def test_every_example_is_tested_here():
    """
    A new example comes with a quick run above or below.
    """
    assert {e.name for e in (ROOT / "examples").glob("*.py")} == {
        "audit_packages.py",
        # Applications and their graph, started by tests/web/test_examples.py.
        "chat_graph.py",
        "fastapi_app.py",
        "litestar_app.py",
        "starlette_app.py",
    }


class TestAuditPackages:
    EXAMPLE = ROOT / "examples" / "audit_packages.py"

    @pytest.fixture
    def packages(self, tmp_path):
        """Two small packages, one of them with a branch."""
        for name in ("alpha", "beta"):
            (tmp_path / "code" / name).mkdir(parents=True)
            (tmp_path / "code" / name / "__init__.py").write_text(f'"""{name}."""\n', "utf-8")
        branch = "def sign(x):\n    if x < 0:\n        return -1\n    return 1\n"
        (tmp_path / "code" / "beta" / "sign.py").write_text(branch, "utf-8")
        return tmp_path / "code"

    def test_help_names_the_options(self, tmp_path):
        """
        --help ends well and names what a user can choose.
        """
        text = run_python(self.EXAMPLE, "--help", cwd=tmp_path)

        for option in ("--db", "--out", "--durability", "--backend", "--ask", "--no-progress"):
            assert option in text

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_small_folder_is_audited(self, tmp_path, packages, backend):
        """
        A folder of two packages gives a database, and reports that name both.
        """
        db, out = tmp_path / "audit.db", tmp_path / "out"
        options = ("--db", db, "--out", out, "--no-progress", "--backend", backend)

        run_python(self.EXAMPLE, packages, *options, cwd=tmp_path)

        reports = [f for f in out.rglob("*") if f.suffix in {".md", ".html"}]
        assert db.stat().st_size > 0
        assert {f.suffix for f in reports} == {".md", ".html"}
        text = "".join(f.read_text("utf-8") for f in reports)
        assert "alpha" in text
        assert "beta" in text
