"""The settings of `make mutants` fit the tree: its rooms, and the reasons of survivors."""

import pytest

from tests.mutation.__main__ import Survivor, change, explained, place, rooms
from tests.support.source_files import ROOT


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_each_room_has_code_and_tests(room):
    """
    A room names files that are there: a moved file would silently not be mutated any more.
    """
    assert room.code
    assert [path for path in room.tests if not (ROOT / path).exists()] == []


def test_each_explained_survivor_has_a_reason():
    """
    An entry without a reason explains nothing.
    """
    assert [key for key, why in explained().items() if not why.strip()] == []


@pytest.mark.parametrize(
    ("mutant", "where"),
    [
        ("package.module.x_function__mutmut_3", ("package.module", "function")),
        ("package.module.xǁClassǁmethod__mutmut_12", ("package.module", "Class.method")),
    ],
)
def test_a_mutant_is_named_by_its_function(mutant, where):
    """
    Names of mutants give the module and the function, or the class and the method.
    """
    assert place(mutant) == where


def test_a_survivor_prints_the_entry_that_explains_it():
    """
    The printed text can be pasted into survivors.toml: the changed lines, with any indent.
    """
    diff = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n"
    survivor = Survivor("a", "f", change(diff), "survived")

    assert survivor.change == "- return 1\n+ return 2"
    assert "function = \"f\"\nchange = '''\n- return 1\n+ return 2\n" in str(survivor)
