"""docs/ARCHITECTURE.md and docs/decisions agree with the tree."""

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support import decision_list, layers_picture
from tests.support.source_files import ROOT, Place, Source, hold, snippet, sources
from tests.test_layers import ORDER, REEXPORTS, ROOMS
from tests.test_words import comments, docstrings

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DEPENDENCIES = next(decision_list.FOLDER.glob("0015-*.md")).read_text("utf-8")

IMPORTED_AS = {
    "uuid-utils": "uuid_utils",
    "prometheus-client": "prometheus_client",
    "opentelemetry-api": "opentelemetry",
    "langchain-core": "langchain_core",
    "nats-py": "nats",
    "pillow": "PIL",
    "typing-extensions": "typing_extensions",
}
"""The import name of a distribution, where it differs from its name."""

IMPORTS = re.compile(
    r"""^\s*(?:import|from)\s(\w+)[\w.]*(?=\simport\s|\sas\s|$)|import_module\(["'](\w+)""",
    re.MULTILINE,
)
"""Imports as the formatter leaves them; a sentence of a docstring seldom looks so. The tree of each
file would take seconds."""

NAME_THEN_PATH = re.compile(r"`(\w+)`\s(?:in|of|\()\s?`((?:\w+/)+\w+\.py)`")
PATH_THEN_NAME = re.compile(r"`((?:\w+/)+\w+\.py)`\s\(`(\w+)`")
"""Forms in which pages name a function or class and its file."""

THEIRS = {"langchain", "langgraph_sdk"}
"""Distributions that only programs need that name a model by a text, or call a graph on a server:
in no extra."""


def required(*extras: str) -> set[str]:
    """The names of the distributions that an installation brings, without those of our own."""
    lists = [PROJECT["optional-dependencies"][extra] for extra in extras]
    lists = lists or [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return {re.split(r"[\[><=]", one)[0] for some in lists for one in some} - {"actorgraph"}


class TestTheMap:
    def test_the_layers_are_those_that_imports_are_held_to(self):
        """
        The line of layers is the order of tests/test_layers.py, without what only re-exports.
        """
        line = next(line for line in PAGE.splitlines() if line.startswith("bridging <-"))
        rows = [set(re.findall(r"\w+", row)) for row in line.split("<-")]

        assert rows == [row for row in ORDER if not any(name.startswith("__") for name in row)]

    def test_every_package_has_its_sentence(self):
        """
        Each package and module of actorgraph/ has a row.
        """
        here = {path.stem for path in (ROOT / "actorgraph").iterdir() if path.name[0] not in "._"}
        rows = set(re.findall(r"^\| `(\w+)(?:/|\.py)` \|", PAGE, re.MULTILINE))

        assert rows == here - {"__pycache__", "__init__", "py"}

    def test_every_decision_of_a_run_has_its_file(self):
        """
        Each file of the rules, and each room, is named by the question that it answers.
        """
        for folder in ("superstep", "rules", "rules/system"):
            here = {path.stem for path in (ROOT / "actorgraph" / folder).iterdir()}
            named = set(re.findall(rf"`{folder}/(\w+)", PAGE))

            assert named == here - {"__init__", "__pycache__"}

    def test_every_path_leads_somewhere(self):
        """
        A path in backticks is a file or a folder of the package or of the project.
        """
        paths = re.findall(r"`((?:\w+/)+(?:\w+(?:\.py)?)?)`", PAGE)
        places = [(ROOT / path, ROOT / "actorgraph" / path) for path in paths]
        gone = [p for p, two in zip(paths, places, strict=True) if not any(exists(t) for t in two)]

        assert len(paths) > 40
        assert gone == []

    def test_each_named_function_is_in_its_file(self):
        """
        A name beside a path, on this page or in the recipes, occurs in that file.
        """
        text = PAGE + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        pairs = {(name, path) for name, path in NAME_THEN_PATH.findall(text)}
        pairs |= {(name, path) for path, name in PATH_THEN_NAME.findall(text)}
        gone = [
            f"{path}: {name}"
            for name, path in sorted(pairs)
            if not re.search(rf"\b{name}\b", source(path))
        ]

        assert len(pairs) > 20
        assert gone == []


class TestThePicture:
    def test_it_has_every_package_and_room(self):
        """
        The picture shows each package of the layers and each of their rooms.
        """
        shown = re.findall(r">([^<]+)</text>", layers_picture.PICTURE.read_text("utf-8"))
        packages = {name for row in ORDER for name in row if not name.startswith("__")}
        rooms = {name for rows in ROOMS.values() for row in rows for name in row if name}

        assert packages | rooms <= set(shown), "the picture is stale: run `make picture`"

    def test_no_box_covers_another_one(self):
        """
        The boxes of a row, and the rooms in them, fit into the picture without overlaps.
        """
        for row in layers_picture.rows():
            shares = layers_picture.widths(row)
            between = layers_picture.GAP * (len(row) - 1) + 2 * layers_picture.MARGIN

            assert sum(shares) + between <= layers_picture.WIDTH + 1
            assert all(b.inner_width <= w for b, w in zip(row, shares, strict=True))


# `graph.invoke` is a call and `systems.log` a file: what re-exports has no modules inside.
PACKAGES = {name for row in ORDER for name in row if not name.startswith("__")} - REEXPORTS
MODULE = re.compile(r"`(?:actorgraph[./])?(\w+)([./])([a-z_]+(?:/[a-z_]+)*)(?=[`./])")
BARE_MODULE = re.compile(
    rf"(?<![\w/.:-])(?:actorgraph[/.])?({'|'.join(sorted(PACKAGES))})([/.])"
    r"([a-z_]+(?:[/.][a-z_]+)*)"
)
"""Of texts in code, where many names have no backticks."""
NEIGHBOUR = re.compile(r"`(\w+)\.([a-z_]\w*)(?:\(\))?`")
"""A name in a file of the same folder: `systems.run_lookups`."""
PYTHON_FILE = re.compile(r"\b([a-z_]+)\.py\b")
NO_MODULES = {
    *("plan.fired", "web.storage_not_usable", "dispatch.away", "dispatch.back"),
    *("studio.act", "studio.delete", "studio.read", "studio.store", "studio.system"),
    *("runtime.store", "runtime.stores", "runtime.context", "values.messages"),
}
"""A field of a test's plan, events of the log, actions that `authorize` is asked about, fields of a
node's parameter, a parameter of a route."""
NO_FILES = {"file"}
"""`file.py:name` is the form of an argument."""


def named_modules(text: str) -> set[str]:
    """Modules and folders of a package that a text names: `codec.records`, `savers/sqlite`."""
    return {
        f"{package}{mark}{name}"
        for package, mark, name in MODULE.findall(text)
        # `runtime.store` is a field of a node's parameter.
        if package in PACKAGES and (package, mark) != ("runtime", ".") and name != "py"
    }


def is_module(name: str) -> bool:
    """Whether it is a file or a folder of its package, or a name that the package exports."""
    package, word = re.split(r"[./]", name, maxsplit=1)
    folder = ROOT / "actorgraph" / package
    exports = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    code = exports.read_text("utf-8").split('"""', 2)[-1]  # its docstring may have any word
    return exists(folder / word) or bool(re.search(rf"\b{word}\b", code))


def is_pointer(name: str) -> bool:
    """Whether it is a module, or a name in one, or a name of a class in one."""
    parts = re.split(r"[./]", name.removesuffix(".py"))
    for end in range(len(parts), max(0, len(parts) - 3), -1):
        folder, rest = (ROOT / "actorgraph").joinpath(*parts[:end]), parts[end:]
        exports = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if exports.exists():
            return all(has_word(exports, word) for word in rest)
    return False


def stale_pointers(source: Source) -> Iterator[Place]:
    """Modules and names in them that a docstring or a comment names, and that don't exist."""
    folder = (ROOT / source.path).parent
    for line, text in (*docstrings(source), *comments(source)):
        for package, mark, rest in BARE_MODULE.findall(text):
            name = f"{package}{mark}{rest}"
            if name not in NO_MODULES and not is_pointer(name):
                yield line, name
        for stem, word in NEIGHBOUR.findall(text):
            file = folder / f"{stem}.py"
            if file.exists() and not (has_word(file, word) or is_pointer(f"{stem}.{word}")):
                yield line, f"{stem}.{word}"
        for stem in PYTHON_FILE.findall(text):
            if stem not in NO_FILES | file_names():
                yield line, f"{stem}.py"


def has_word(file: Path, word: str) -> bool:
    """Whether the code of a file has a name; its own docstring may have any word."""
    code = file.read_text("utf-8").split('"""', 2)[-1]
    return word == "py" or bool(re.search(rf"\b{word}\b", code))


@cache
def file_names() -> frozenset[str]:
    """The names of the Python files of the package and of its tests."""
    return frozenset(Path(file.path).stem for file in sources("actorgraph", "tests"))


class TestNamedModules:
    def test_each_of_the_pages_exists(self):
        """
        The modules that pages and decisions name are where they say.
        """
        pages = [*ROOT.glob("*.md"), ROOT / "tests" / "README.md", *(ROOT / "docs").rglob("*.md")]
        pages = [page for page in pages if page.name != "CHANGELOG.md"]
        texts = {page: page.read_text("utf-8") for page in pages}
        found = {(page, name) for page, text in texts.items() for name in named_modules(text)}
        gone = [
            f"{page.relative_to(ROOT)}: {name}"
            for page, name in sorted(found)
            if name not in NO_MODULES and not is_module(name)
        ]

        assert len(found) > 20
        assert gone == []

    def test_each_of_the_code_exists(self):
        """
        The modules that docstrings and comments name, and names in them, are where they say.
        """
        hold(stale_pointers, sources("actorgraph"))

    def test_a_moved_module_is_noticed(self):
        """
        A name of no file is found, in both forms; fields of a node's runtime are not modules.
        """
        text = "`savers.checksums`, `actorgraph/savers/sqlite/batch.py`, `runtime.store`, `a.b`"

        assert named_modules(text) == {"savers.checksums", "savers/sqlite/batch"}
        assert not is_module("savers.checksums")
        assert is_module("savers/sqlite/batch")

    @pytest.mark.parametrize(
        ("text", "gone"),
        [
            ("The rules are in superstep/turns.", "superstep/turns"),
            ("As `actorgraph.runtime.caller` does.", "runtime.caller"),
            ("See `codec.records.gone`.", "codec.records.gone"),
            ("See `lanes.gone`, in scheduling.py.", ""),
            ("It is what gone_since.py did.", "gone_since.py"),
            ("`scheduling.begun_twice` decides.", "scheduling.begun_twice"),
            ("See codec/records, `codec.records.Record`, `dispatching.room`, `runtime.store`.", ""),
        ],
    )
    def test_a_stale_pointer_of_the_code_is_found(self, text, gone):
        """
        Modules with and without backticks are found, names in them, neighbours and files.
        """
        made = snippet(f'"""{text}"""', "actorgraph/rules/system/made_up.py")

        assert [what for _, what in stale_pointers(made)] == ([gone] if gone else [])


def source(path: str) -> str:
    """The text of a file of the package or of the project."""
    files = [folder / path for folder in (ROOT, ROOT / "actorgraph") if (folder / path).exists()]
    return files[0].read_text("utf-8") if files else ""


def exists(path) -> bool:
    """Whether there is such a file or folder, or a module of that name."""
    return path.exists() or path.with_suffix(".py").exists()


class TestDecisions:
    def test_the_list_is_fresh(self):
        """
        The list of decisions is what `make promises` would write now.
        """
        assert decision_list.PAGE.read_text("utf-8") == decision_list.current()

    def test_each_has_a_number_of_its_own(self):
        """
        A decision begins with the number of its file, which no other one has.
        """
        numbers = [path.name[:4] for path in decision_list.files()]
        first = [path.read_text("utf-8").partition(".")[0] for path in decision_list.files()]

        assert len(set(numbers)) == len(numbers)
        assert first == [f"# {int(number)}" for number in numbers]


class TestDependencies:
    @pytest.mark.parametrize("name", sorted(required()))
    def test_each_is_justified(self, name):
        """
        Each dependency in pyproject.toml has its reason in the decision about dependencies.
        """
        rows = [line for line in DEPENDENCIES.splitlines() if line.startswith("| ")]

        assert [row for row in rows if re.search(rf"(^\| |, ){name}[ ,(]", row)]

    def test_the_package_imports_nothing_else(self):
        """
        Each foreign package that actorgraph/ imports is a dependency or in the extra `all`.
        """
        known = {re.split(r"[\[><=]", one)[0] for one in PROJECT["dependencies"]}
        extras = re.findall(r"\w+", PROJECT["optional-dependencies"]["all"][0].partition("[")[2])
        known |= required(*extras)
        names = {IMPORTED_AS.get(name, name) for name in known} | sys.stdlib_module_names
        names |= {"annotationlib"}  # of the standard library since 3.14
        texts = {path: path.read_text("utf-8") for path in (ROOT / "actorgraph").rglob("*.py")}
        foreign = {
            f"{name} in {path.relative_to(ROOT)}"
            for path, text in texts.items()
            for name in {one or other for one, other in IMPORTS.findall(text)}
            if name not in names | THEIRS | {"actorgraph"}
        }

        assert len(texts) > 300
        assert foreign == set()
