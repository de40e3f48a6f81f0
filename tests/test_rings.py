"""Rings: what a program needs inside, what builds on it outside (docs/ARCHITECTURE.md, Rings).

Each rule is first tried on made-up files that break it.
"""

import re

import pytest

from tests.support.rings import (
    DOORS,
    HOOKS,
    RINGS,
    below_root,
    code_lines,
    imported,
    module_of,
    modules,
    outward,
    ring_of,
)
from tests.support.source_files import ROOT, hold, snippet, sources

PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")


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


class TestCodeLines:
    def test_blank_lines_comments_and_docstrings_are_left_out(self):
        """
        A text over several lines counts if it is a value, and not if it explains one.
        """
        text = (
            '"""A module.\n\nMore."""\n\nX = """a\nb"""\n"""What X is."""\n# why\ny = 1  # here\n'
        )

        assert code_lines(text) == 3
