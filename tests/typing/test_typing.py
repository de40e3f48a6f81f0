"""Types that checkers infer of a user's program, and lines that they refuse.

`programs/` has the programs. basedpyright and mypy, both strict, check each `assert_type` in them;
a line that ends in `# refused: why` must be refused by both, and no other line by either.
"""

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import actorgraph
from tests.docs.blocks import blocks
from tests.docs.test_docs import program
from tests.support.recording_subclasses import public_classes
from tests.support.source_files import ROOT
from tests.typing.checkers import HERE, Refusals, basedpyright, mypy

PROGRAMS = HERE / "programs"
GUIDES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="one version of Python is enough for the checkers"
)

NOT_STRICT = (
    *("--allow-untyped-calls", "--allow-untyped-defs", "--allow-incomplete-defs"),
    *("--allow-any-generics", "--allow-subclassing-any", "--allow-untyped-decorators"),
    *("--implicit-reexport", "--no-warn-return-any", "--no-warn-unused-ignores"),
    "--ignore-missing-imports",
)

OPEN_ENDED = {
    *("override", "patch_execution_info", "patch"),  # fields of the object
    *("write_to", "meta", "with_config"),  # the program's own names
    "bind_tools",  # fields of a request
}
"""Methods whose further keyword arguments are names that the program chooses."""


def marked() -> set[tuple[str, int]]:
    """The lines that must be refused."""
    return {
        (path.name, number)
        for path in PROGRAMS.glob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "# refused: " in line
    }


def differences(found: Refusals) -> dict[tuple[str, int], str]:
    """Each line that is refused without a mark, or has a mark and is accepted."""
    wrong = {place: f"refused: {said}" for place, said in found.items() if place not in marked()}
    return wrong | dict.fromkeys(marked() - found.keys(), "accepted")


class TestPrograms:
    def test_basedpyright_infers_and_refuses(self, tmp_path: Path):
        """
        In strict mode basedpyright agrees with each assert_type and each mark.
        """
        assert differences(basedpyright([PROGRAMS], tmp_path)) == {}

    @pytest.mark.long
    def test_mypy_infers_and_refuses(self):
        """
        In strict mode mypy agrees with each assert_type and each mark.
        """
        assert differences(mypy([PROGRAMS])) == {}

    def test_many_mistakes_are_marked(self):
        """
        At least fifty wrong lines are held to be refused.
        """
        assert len(marked()) >= 50


@pytest.mark.long
class TestPages:
    """Examples and the README, in the checkers' basic modes."""

    @pytest.fixture
    def pages(self, tmp_path: Path) -> list[Path]:
        readme = tmp_path / "readme_program.py"
        readme.write_text(program((ROOT / "README.md").read_text("utf-8")), "utf-8")
        return [ROOT / "examples", readme]

    def test_basedpyright_accepts_them(self, pages: list[Path], tmp_path: Path):
        """
        In standard mode basedpyright has nothing to say about the examples and the README.
        """
        assert basedpyright(pages, tmp_path, "standard") == {}

    def test_mypy_accepts_them(self, pages: list[Path]):
        """
        Without its strict mode mypy has nothing to say about the examples and the README.
        """
        assert mypy(pages, *NOT_STRICT) == {}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function and public method of a public class, by name."""
    for kind in public_classes():
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and member.__module__.startswith("actorgraph"):
                yield f"{kind.__name__}.{name}", member
    for name in actorgraph.__all__:
        if inspect.isfunction(found := getattr(actorgraph, name)):
            yield name, found


class TestPublicApi:
    def test_no_options_are_untyped(self):
        """
        No public function hides its options behind `**options: Any`: editors could not show them.
        """
        untyped = [
            name
            for name, function in public_functions()
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is parameter.VAR_KEYWORD
            and parameter.annotation in (Any, inspect.Parameter.empty)
            and name.rpartition(".")[2] not in OPEN_ENDED
        ]

        assert untyped == []

    def test_each_option_is_documented(self):
        """
        Each key of a TypedDict of options is explained, there or in one that it extends.
        """
        from actorgraph.api import options
        from actorgraph.plan.node_options import NodeOptions

        kinds = [kind for name, kind in vars(options).items() if name.endswith("Options")]
        texts = " ".join(str(kind.__doc__) for kind in (*kinds, NodeOptions))
        keys = {key for kind in (*kinds, NodeOptions) for key in typing.get_type_hints(kind)}

        assert {key for key in keys if not re.search(rf"\b{key}: ", texts)} - _EXPLAINED == set()

    def test_the_package_says_that_it_is_typed(self):
        """
        `py.typed` is there, without which checkers ignore the annotations.
        """
        assert (ROOT / "actorgraph" / "py.typed").exists()


_EXPLAINED = {f"{how}_{of}" for how in ("include", "exclude") for of in ("types", "tags")} | {
    "exclude_names"
}
"""Keys that the entry of `include_names` explains too."""


def snippets() -> Iterator[tuple[str, str]]:
    """The programs and the files of the pages that teach: (path, text), lines as in the page."""
    for page in [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *GUIDES]:
        text, folder = page.read_text("utf-8"), page.stem.replace("-", "_")
        if (whole := program(text)).strip():
            yield f"{folder}/page.py", whole
        for number, block in enumerate(blocks(text)):
            excerpt = (block.title or "").startswith("examples/")  # of a file that is checked whole
            if block.title is not None and block.title.endswith(".py") and not excerpt:
                lines = "\n" * block.first + "\n".join(block.lines) + "\n"
                # A later block of the same name is the file after a change: others import it.
                yield f"{folder}/{block.title}", lines
                yield f"{folder}/of_block_{number}/{block.title}", lines


@pytest.mark.long
class TestSnippets:
    def test_pages_that_teach_are_strict(self, tmp_path: Path):
        """
        In strict mode basedpyright accepts every snippet of README, tutorial and how-to guides.
        """
        written = tmp_path / "pages"
        for name, text in snippets():
            (written / name).parent.mkdir(parents=True, exist_ok=True)
            (written / name).write_text(text, "utf-8")

        assert len(list(written.rglob("*.py"))) > 20
        assert basedpyright([written], tmp_path) == {}
