"""The memory of `make faults`, and its parts."""

import subprocess
import sys

import pytest

from tests.support.fault_book import ROOT, End, Tree, add, ends_in, part_of, report_lines

TESTS = """
import os, pytest

def test_steady():
    with open(os.environ["RAN"], "a") as file:
        print("steady", file=file)

def test_shaky():
    with open(os.environ["RAN"], "a") as file:
        print("shaky", file=file)
    assert os.environ["HOLDS"] == "yes"

@pytest.fixture
def leaky():
    yield
    assert os.environ["HOLDS"] == "yes"

def test_leaky(leaky):
    with open(os.environ["RAN"], "a") as file:
        print("leaky", file=file)
"""


def end(test, outcome="passed", tree="t", seconds=1.0, figures=()):
    return End(tree, test, outcome, seconds, list(figures))


class TestParts:
    @pytest.mark.parametrize("parts", [1, 2, 3, 7])
    def test_each_item_is_in_one_part(self, parts):
        """
        The parts have every item once, and differ in length by one at most.
        """
        items = list(range(23))
        chosen = [part_of(items, f"{k}/{parts}") for k in range(1, parts + 1)]

        assert sorted(item for part in chosen for item in part) == items
        assert max(map(len, chosen)) - min(map(len, chosen)) <= 1

    @pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3"])
    def test_other_forms_are_refused(self, part):
        """
        A part that is not one of so many is an error: neither all tests nor no test run.
        """
        with pytest.raises(ValueError, match="PART="):
            part_of([1, 2], part)


class TestBook:
    def test_the_last_end_on_a_tree_counts(self, tmp_path):
        """
        Ends of other trees and a half line are skipped; of two ends of a test the later one counts.
        """
        book = tmp_path / "new" / "ends.jsonl"
        for it in (end("a", "failed"), end("a"), end("b"), end("b", "failed"), end("c", tree="u")):
            add(book, it)
        with book.open("a") as file:
            file.write('{"tree": "t", "test": "d", "outc')

        ends = ends_in(book, lambda _: "t")

        assert {test: it.outcome for test, it in ends.items()} == {"a": "passed", "b": "failed"}

    def test_a_report_names_what_is_missing(self):
        """
        The report has the tables of ended tests, the counts, the failed tests, and how many of
        which file are missing.
        """
        figures = [("kill -9", "| sqlite | 20 |"), ("other property", "x")]
        ends = {it.test: it for it in (end("f::a", figures=figures), end("f::b", "failed"))}

        lines = list(report_lines(["f::a", "f::b", "g::c", "g::d"], ends))

        assert "| sqlite | 20 |" in lines
        assert "1 passed, 0 skipped, 1 failed, 2 missing of 4; 2 s of tests" in lines
        assert lines[-2:] == ["failed   f::b", "missing      2 of g"]

    def test_the_digest_is_of_what_a_test_executes(self, tmp_path):
        """
        The library, what tests share, its own file and the files of tests that it imports, in git
        or not yet: not a page, another test, a benchmark, or what git ignores.
        """
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)  # noqa: S607
        for folder in ("actorgraph", "docs", "tests/a", "tests/bench"):
            (tmp_path / folder).mkdir(parents=True)
        (tmp_path / ".gitignore").write_text("*.db\n")
        (tmp_path / "tests/a/test_it.py").write_text("from tests.a.test_base import one\n")
        test = "tests/a/test_it.py::test_it"
        changes = {}
        for name in (
            *("docs/page.md", "actorgraph/left.db", "tests/a/test_other.py", "tests/bench/b.py"),
            *("actorgraph/b.py", "tests/a/conftest.py", "tests/a/test_base.py", "examples"),
            *("tests/a/test_it.py",),
        ):
            before = Tree(tmp_path).digest_of(test)
            (tmp_path / name).write_text("from tests.a.test_base import two\n")
            changes[name] = Tree(tmp_path).digest_of(test) != before

        assert [name for name, changed in changes.items() if not changed] == list(changes)[:4]

    def test_a_file_of_tests_that_all_tests_share_is_of_all(self, tmp_path):
        """
        A file of tests whose names a shared module imports changes each digest.
        """
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)  # noqa: S607
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests/shared.py").write_text("from tests.test_base import one\n")
        before = Tree(tmp_path).digest_of("tests/test_it.py::test_it")
        (tmp_path / "tests/test_base.py").write_text("one = 1")

        assert Tree(tmp_path).digest_of("tests/test_it.py::test_it") != before


def test_only_what_has_not_passed_runs_again(tmp_path, monkeypatch):
    """
    The second run on a tree runs the tests that failed in the first, in their teardown too, and
    no others, whichever processes ran them; the third has none to run.
    """
    (tmp_path / "test_it.py").write_text(TESTS)
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # their imports take seconds
    ran = []
    spread = ["-p", "xdist", "-n", "2"]
    for holds, workers in (("no", spread), ("yes", spread), ("yes", [])):
        monkeypatch.setenv("HOLDS", holds)
        plugin = ["-p", "tests.support.fault_book", "--fault-book", str(tmp_path / "book")]
        command = [sys.executable, "-m", "pytest", "-q", *plugin, *workers]
        outside = ["--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_it.py")]
        subprocess.run([*command, *outside], cwd=ROOT, check=False, capture_output=True)
        written = tmp_path / "ran"
        ran.append(sorted(written.read_text().split()) if written.exists() else [])
        written.unlink(missing_ok=True)

    assert ran == [["leaky", "shaky", "steady"], ["leaky", "shaky"], []]
