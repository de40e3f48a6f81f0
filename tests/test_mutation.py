"""The settings of `make mutants` fit the tree: its rooms, and the reasons of survivors."""

import json
from dataclasses import replace

import pytest

from tests.mutation.__main__ import (
    Reason,
    Survivor,
    change,
    not_run,
    place,
    reason_for,
    reasons,
    rooms,
    sample,
)
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
    An entry has a reason, and either the changed lines or a pattern that is found in them.
    """
    assert [entry for entry in reasons() if not entry.why.strip()] == []
    assert [entry for entry in reasons() if bool(entry.change) is bool(entry.pattern)] == []


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (Reason("C.f", "- a(1)\n+ a(2)", "", "why"), True),
        (Reason("C.f", "- a(1)\n+ a(3)", "", "why"), False),
        (Reason("C.g", "- a(1)\n+ a(2)", "", "why"), False),
        (Reason("C.*", "", r"^- a\(", "why"), True),
        (Reason("C.*", "", r"^\+ b\(", "why"), False),
        (Reason("D.*", "", r"^- a\(", "why"), False),
    ],
)
def test_an_entry_covers_a_change_or_those_with_its_pattern(entry, covered):
    """
    A reason holds for its function and change, or for each change in which its pattern is found.
    """
    survivor = Survivor("a", "C.f", "- a(1)\n+ a(2)", "survived")

    assert reason_for(survivor, [entry]) == ("why" if covered else "")
    assert reason_for(replace(survivor, status="not run"), [entry]) == ""


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


def test_mutants_whose_tests_could_not_be_run_are_found(tmp_path):
    """
    A mutant whose tests pytest refused is not run, whatever mutmut calls its exit code.
    """
    folder = tmp_path / "mutants" / "package"
    folder.mkdir(parents=True)
    codes = {"package.a.x_f__mutmut_1": 1, "package.a.x_f__mutmut_2": 255, "x": 0}
    (folder / "a.py.meta").write_text(json.dumps({"exit_code_by_key": codes}), "utf-8")
    (folder / "b.py.meta").write_text('{"exit_code_by_key": {"y": 255, "z": null}}', "utf-8")

    assert not_run(tmp_path) == {"package.a.x_f__mutmut_2", "y"}


def test_a_sample_has_so_many_mutants_of_each_file():
    """
    The same seed chooses the same mutants; another file's don't change those of a file.
    """
    large = [("package.a", f"x_f__mutmut_{number}") for number in range(20)]
    small = [("package.b", "x_g__mutmut_1")]

    chosen = sample([*large, *small], 5, seed=1)

    assert chosen == sample([*large, *small], 5, seed=1) != sample([*large, *small], 5, seed=2)
    assert chosen == [*sample(large, 5, seed=1), "package.b.x_g__mutmut_1"]
    assert len({*chosen} & {f"{module}.{name}" for module, name in large}) == 5
