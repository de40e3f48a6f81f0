"""Rings: what a program needs inside, what builds on it outside (docs/ARCHITECTURE.md, Rings).

Each rule is first tried on made-up files that break it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest

from actorgraph import internals
from tests.support.names_page import HOMES
from tests.support.rings import (
    DOORS,
    HOOKS,
    RINGS,
    SMALLEST,
    below_root,
    code_lines,
    imported,
    module_of,
    modules,
    needed,
    outward,
    ring_of,
    sizes,
    table,
)
from tests.support.source_files import ROOT, Place, Source, hold, snippet, sources

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
NAMES = internals.NAMES


class TestRings:
    def test_every_module_is_in_one(self):
        """
        A new package takes its place in RINGS; no ring names a module that is gone.
        """
        known = {below_root(module) for module in modules()}
        named = {name for ring in RINGS.values() for name in ring}
        homes = {ring_of(f"actorgraph.{each}") for each in known - DOORS}

        assert homes == set(range(len(RINGS)))
        assert named - known == set()
        assert DOORS - known == set()

    def test_imports_point_inward(self):
        """
        No file imports a ring outside of its own, by whatever door.
        """
        hold(outward, sources("actorgraph"))

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("api/graph/a.py", "from actorgraph.api.system.system import ActorSystem"),
            ("api/graph/a.py", "from actorgraph.systems import ActorSystem"),
            ("runtime/run/a.py", "def f():\n    from actorgraph.runtime.system import actor"),
            ("runtime/run/a.py", "if TYPE_CHECKING:\n    import actorgraph.savers.postgres.saver"),
            ("stores/memory.py", "from actorgraph.stores import PostgresStore"),
            ("rules/thread_batches.py", "from actorgraph.rules.system import scheduling"),
            ("savers/jsonl/a.py", "import_module('actorgraph.web.app')"),
            ("web/a.py", "from actorgraph.cli.visible_text import shown"),
            ("prebuilt/a.py", "from actorgraph.compat import installed"),
        ],
    )
    def test_an_import_outward_is_found(self, path, text):
        """
        The rule sees deferred, type-only and dynamic imports, and through doors.
        """
        assert list(outward(snippet(text, f"actorgraph/{path}")))

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("api/system/a.py", "from actorgraph.api.graph.compiled import CompiledStateGraph"),
            ("api/graph/a.py", "from actorgraph.stores import BaseStore, InMemoryStore"),
            ("cli/a.py", "from actorgraph.web import serve\nimport json"),
            ("systems.py", "from actorgraph.api.system.sharded import ShardedSystem"),
        ],
    )
    def test_an_import_inward_is_not_found(self, path, text):
        """
        Inner rings, the own ring, inner names behind a door, and what a door has are fine.
        """
        assert list(outward(snippet(text, f"actorgraph/{path}"))) == []

    def test_each_hook_is_used(self):
        """
        An import that may point outward is one that exists.
        """
        pairs = {
            (below_root(module_of(file)), below_root(module))
            for file in sources("actorgraph")
            for _, module, _ in imported(file)
        }

        assert HOOKS.keys() <= pairs

    def test_the_page_has_them_in_their_order(self):
        """
        The rings of the page are these, with the packages that are named there.
        """
        rows = dict(re.findall(r"^\| (\w[\w ]*) \| (`[^|]*) \| [^|]* \|$", PAGE, re.MULTILINE))
        shown = {ring: set(re.findall(r"`([\w/]+?)/?(?:\.py)?`", rows[ring])) for ring in rows}

        assert [ring for ring in rows if ring in RINGS] == list(RINGS)
        for ring, names in RINGS.items():
            assert shown[ring] == {name.replace(".", "/") for name in names}, ring


AROUND = ("prebuilt", "migrate", "web", "studio", "cli")
"""Packages around the library; each other they import as layers allow."""
OPEN = (*HOMES, "ports")
"""Modules with public names, and the protocols of savers, stores and caches."""


def internal_names(source: Source) -> Iterator[Place]:
    """Names of the library that are neither public nor in the port."""
    for line, module, name in imported(source):
        package, _, below = below_root(module).partition(".")
        if module.split(".")[0] != "actorgraph" or package in AROUND:
            continue
        if not package and name in OPEN:  # `from actorgraph import errors`
            continue
        if package == "internals" and not below and name in NAMES:
            continue
        if below_root(module) not in OPEN or name not in public_names(module):
            yield line, f"{module}: {name or 'a module'} isn't public: add it to internals.py"


@cache
def public_names(module: str) -> frozenset[str]:
    """The names that a module declares; of the protocols all without an underscore."""
    home = import_module(module)
    return frozenset(getattr(home, "__all__", None) or (n for n in vars(home) if n[0] != "_"))


class TestThePort:
    """`actorgraph/internals.py`: what the packages around the library use of its inside."""

    def test_nothing_internal_is_used_beside_it(self):
        """
        prebuilt, migrate, web, studio and cli import public names, and internal ones from the port.
        """
        hold(internal_names, [f for name in AROUND for f in sources(f"actorgraph/{name}")])

    @pytest.mark.parametrize(
        "text",
        [
            "from actorgraph.values.systems import RunRow",
            "def f():\n    from actorgraph.runtime.clock import microseconds_now",
            "from actorgraph.graph import Lane",
            "from actorgraph.messages import kinds",
            "import actorgraph.api.system.system",
            "from actorgraph import api",
            "from actorgraph.internals import Lane",
        ],
    )
    def test_an_internal_name_is_found(self, text):
        """
        The rule sees deferred imports, whole modules, and names that a public module only has.
        """
        assert list(internal_names(snippet(text, "actorgraph/web/a.py")))

    @pytest.mark.parametrize(
        "text",
        [
            "from actorgraph.graph import StateGraph\nimport json",
            "from actorgraph import errors",
            "from actorgraph.ports import Saver",
            "from actorgraph.web.http.problems import NotFound",
            "from actorgraph.internals import RunRow",
        ],
    )
    def test_a_public_name_is_not_found(self, text):
        """
        Public names, protocols, the port's names and packages beside are fine.
        """
        assert list(internal_names(snippet(text, "actorgraph/studio/a.py"))) == []

    def test_every_name_is_used(self):
        """
        A name that no package around the library uses any more is taken off the port.
        """
        files = [f for name in AROUND for f in sources(f"actorgraph/{name}")]
        used = {n for f in files for _, module, n in imported(f) if module == internals.__name__}

        assert sorted(set(NAMES) - used) == []

    def test_both_lists_are_the_same(self):
        """
        Type checkers find each name at the module where it is loaded from, and no other.
        """
        (file,) = (f for f in sources("actorgraph") if f.path == "actorgraph/internals.py")
        declared = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in file.nodes(ast.ImportFrom)
            for alias in node.names
            if str(node.module).startswith("actorgraph.")
        }

        assert declared == NAMES

    def test_each_name_is_loaded(self):
        """
        A name of the port is the object of its module; an unknown one is an AttributeError.
        """
        for name, (module, there) in NAMES.items():
            assert getattr(internals, name) is getattr(import_module(module), there)
        with pytest.raises(AttributeError, match="'no_such_name'"):
            internals.no_such_name  # noqa: B018 - it is asked for


class TestCodeLines:
    def test_blank_lines_comments_and_docstrings_are_left_out(self):
        """
        A text over several lines counts if it is a value, and not if it explains one.
        """
        text = (
            '"""A module.\n\nMore."""\n\nX = """a\nb"""\n"""What X is."""\n# why\ny = 1  # here\n'
        )

        assert code_lines(text) == 3

    def test_each_file_is_counted_in_one_ring(self, tmp_path):
        """
        The table has the files and lines of each ring, and of all; what a file imports is needed.
        """
        texts = {
            "errors/base.py": "class Error(Exception): ...\n",
            "runtime/system/actor.py": '"""An actor."""\nx = 1\ny = 2\n',
            "web/app.py": "z = 1\n",
            **{f"{name.replace('.', '/')}.py": "" for name in SMALLEST},
            "api/graph/compiled.py": "from actorgraph.errors.base import Error\n",
        }
        for path, text in texts.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, "utf-8")

        assert sizes(tmp_path)["nucleus"] == (5, 2)
        assert sizes(tmp_path)["systems"] == (1, 2)
        assert sizes(tmp_path)["server and studio"] == (1, 1)
        assert needed(tmp_path) == (5, 2)
        assert "| all | 7 | 5 |" in table(tmp_path)
