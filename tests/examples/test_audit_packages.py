"""The audit example, quickly: a few packages, two kills, one Ctrl-C, a reviewer who leaves.

The same under 20 seeded kills per event loop: `make faults`.
"""

import re
import signal
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import anyio
import pytest
from rich.console import Console
from rich.text import Text

from audit.board import REFRESH_SECONDS, Board, Progress
from audit.chart import risk_chart
from audit.markdown import main_report, strip_run_section
from audit.measure import measure_file, measure_source
from audit.page import html_report
from audit.score import rank_files
from audit.summary import AuditedPackage, overview_of
from audit.targets import UnknownTargetError, find_packages, list_sources
from tests.support.audit_example import Place, parsed_again

TARGETS = ("json", "email", "xml")
# Above the threshold, by its size and shape in every supported Python.
REVIEWED = "json"

TANGLED = b'''"""A module."""


def decide(a, b, c):
    if a and b:
        for x in c:
            if x:
                return [y for y in c if y]
    elif b:
        return 1
    else:
        with c:
            pass
    def inner(): ...


class _Private:
    def method(self): ...


class Public:
    """Documented."""

    async def method(self): ...
'''


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def whole(request, tmp_path_factory):
    """
    An uninterrupted audit of a few packages, on either event loop.
    """
    place = Place(tmp_path_factory.mktemp("audit") / "whole", TARGETS, request.param)
    place.run()
    return place


class TestMeasure:
    def test_branches_and_nesting_are_counted_as_they_read(self):
        """
        An `elif` is one more branch, but no deeper than its `if`; each function counts its own.
        """
        figures = measure_source(TANGLED, "tangled.py")
        decide = next(f for f in figures["notable"] if f["name"] == "decide")

        # if, and, for, if, comprehension, elif
        assert (figures["branches"], decide["branches"], decide["nesting"]) == (6, 6, 3)
        assert (decide["line"], decide["lines"]) == (4, 11)
        assert (figures["functions"], figures["classes"]) == (4, 2)

    def test_only_public_names_need_a_docstring(self):
        """
        The module, `decide`, `Public` and `Public.method` are public; two of them say nothing.
        """
        figures = measure_source(TANGLED, "tangled.py")

        assert (figures["public"], figures["undocumented"]) == (4, 2)

    @pytest.mark.parametrize(
        ("source", "problem"),
        [
            (b"def f(:\n", "not parsed: line 1"),
            (b"\xff\n", "not parsed"),
            (b"x = '\0'", "not parsed"),
            (b"# coding: klingon\n", "not parsed"),
            (b"x = " + b"-" * 100_000 + b"1", "not parsed"),
        ],
    )
    def test_a_file_that_can_not_be_parsed_is_counted(self, source, problem):
        """
        A broken file gives figures with its problem named, and stops nothing.
        """
        figures = measure_source(source, "broken.py")

        assert figures["problem"].startswith(problem)
        assert (figures["file"], figures["functions"]) == ("broken.py", 0)

    def test_a_file_that_can_not_be_read_is_counted(self, tmp_path):
        """
        A file that is gone by the time it is measured is one more problem, without its path.
        """
        figures = measure_file(tmp_path / "gone.py", "gone.py")

        assert figures["problem"] == "unreadable: No such file or directory"


class TestTargets:
    def test_a_folder_is_searched_for_packages_and_modules(self, tmp_path):
        """
        Each package and module right inside a folder is one; test suites count when asked for.
        """
        for name in ("one/__init__.py", "one/tests/test_a.py", "two.py", ".venv/x.py", "note.txt"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()

        one, two = find_packages([str(tmp_path)], with_tests=False)

        assert (one.name, two.name) == ("one", "two")
        assert list_sources(one.root, with_tests=False) == ["one/__init__.py"]
        assert list_sources(one.root, with_tests=True) == ["one/__init__.py", "one/tests/test_a.py"]
        assert list_sources(two.root, with_tests=False) == ["two.py"]

    def test_two_packages_of_one_name_get_two_names(self, tmp_path):
        """
        Names name report files, so no two packages share one; a target given twice is one.
        """
        (tmp_path / "json").mkdir()
        (tmp_path / "json" / "__init__.py").touch()

        found = find_packages(["json", f"{tmp_path}/json", "json"], with_tests=False)

        assert [package.name for package in found] == ["json", "json-2"]

    def test_an_installed_distribution_is_found(self):
        """
        A distribution's packages come from its own list of files.
        """
        names = [package.name for package in find_packages(["pytest"], with_tests=False)]

        assert {"_pytest", "pytest"} <= set(names)

    def test_an_unknown_target_is_refused(self):
        """
        A name that means nothing is an error that says what would do.
        """
        with pytest.raises(UnknownTargetError, match="Do this"):
            find_packages(["no-such-thing"], with_tests=False)


class TestReports:
    def test_a_hostile_name_stays_text(self):
        """
        A file's name comes from outside: it never becomes markup.
        """
        measures = [measure_source(b"(", "<script>|`.py")]
        package = AuditedPackage("<em>", "packages/<em>.md", measures, rank_files(measures), None)
        overview = overview_of("<i>", [package])

        page = html_report(overview, [("<u>", "<s>")])

        assert not [tag for tag in ("<em>", "<i>", "<u>", "<s>", "<script>|") if tag in page]
        assert "\\|" in main_report(overview, [])

    def test_an_empty_audit_has_reports_too(self):
        """
        No package at all: nothing to draw, and no division by zero.
        """
        overview = overview_of("Nothing", [])

        assert risk_chart(overview).startswith("<svg")
        assert "0 packages" in main_report(overview, [])

    def test_the_run_section_is_all_that_is_stripped(self):
        """
        Two reports that differ in nothing but their runs are equal once stripped.
        """
        overview = overview_of("Nothing", [])
        for render in (main_report, html_report):
            one, two = render(overview, [("Time", "1 s")]), render(overview, [("Time", "2 s")])

            assert one != two
            assert strip_run_section(one) == strip_run_section(two)


class TestPicture:
    @pytest.mark.parametrize("live", [True, False])
    async def test_it_shows_how_far_the_threads_are(self, live):
        """
        Threads, files, supersteps, and the saver's commits with their sizes; nothing if not live.
        """
        console = Console(file=StringIO(), width=120, force_terminal=True)
        progress = Progress(3)
        progress.note("json", {"list_files": {"files": ["a.py", "b.py"]}})
        progress.note("json", {"measure": {"measures": [{"file": "a.py"}]}})
        progress.finish("xml", {})
        board = Board(console, "An audit", progress, live)
        board.watch(lambda: SimpleNamespace(commits=7, messages=21, batch_size_mean=3.0))
        with anyio.move_on_after(2 * REFRESH_SECONDS):
            await board.keep_fresh()
        text = Text.from_ansi(console.file.getvalue()).plain

        if not live:
            assert text == ""
            return
        for part in ("An audit", "packages", "1 of 3", "files", "1 of 2", "supersteps", "a second"):
            assert part in text
        assert "7 commits" in text
        assert "3.0 messages a commit" in text


class TestAudit:
    def test_the_reports_are_written(self, whole):
        """
        A main report twice, one per package, and a verdict by policy where the risk is high.
        """
        reports = whole.reports()

        assert set(reports) == {
            *("report.html", "report.md"),
            *(f"packages/{name}.md" for name in TARGETS),
        }
        assert "(by policy)" in reports[f"packages/{REVIEWED}.md"]
        assert "<svg" in reports["report.html"]

    def test_the_page_needs_nothing_else(self, whole):
        """
        The HTML report loads nothing: styles and chart are in it, links lead to its own folder.
        """
        page = whole.reports()["report.html"]
        loaded = re.findall(r"<(?:link|img|iframe)\b|\bsrc=|@import|url\(", page)
        links = re.findall(r"\bhref=[\"']?([^\"'> ]+)", page)

        assert loaded == []
        assert {link.partition("/")[0] for link in links} == {"packages"}
        assert "<style" in page

    @pytest.mark.one_loop
    def test_a_killed_audit_goes_on_where_it_stopped(self, whole, tmp_path):
        """
        Killed twice with -9, the audit ends with the same reports, to the byte; no file whose
        measure was acknowledged is parsed again.
        """
        place = replace(whole, folder=tmp_path)

        assert place.stop_when("ack", 5, signal.SIGKILL) == -signal.SIGKILL
        place.stop_when("ack", 25, signal.SIGKILL)
        before = place.lines()["done"]
        printed = place.run()

        files, now = whole.lines()["done"], place.lines()["done"] - before
        assert parsed_again(place.oracle_text()) == []
        assert place.reports() == whole.reports()
        assert f"{files - now} files were measured before" in printed

    @pytest.mark.one_loop
    def test_an_interrupted_audit_goes_on_where_it_stopped(self, whole, tmp_path):
        """
        Ctrl-C ends the audit in order; the next run goes on.
        """
        place = replace(whole, folder=tmp_path)

        assert place.stop_when("ack", 5, signal.SIGINT) == 130
        place.run()

        assert parsed_again(place.oracle_text()) == []
        assert place.reports() == whole.reports()

    @pytest.mark.one_loop
    @pytest.mark.parametrize("durability", [pytest.param("async", marks=pytest.mark.long), "exit"])
    def test_the_mode_changes_no_report(self, whole, durability, tmp_path):
        """
        Begun in one durability mode, killed, and ended in another: the same reports.
        """
        place = replace(whole, folder=tmp_path, durability=durability)

        place.stop_when("done", 20, signal.SIGKILL)
        replace(place, durability="sync").run()

        assert parsed_again(place.oracle_text()) == []
        assert place.reports() == whole.reports()

    @pytest.mark.one_loop
    def test_a_finished_audit_has_nothing_to_do(self, whole, tmp_path):
        """
        Running it once more parses nothing, and writes the reports that a new folder lacks.
        """
        before = whole.lines()["done"]

        whole.run("--out", str(tmp_path / "reports"))

        assert whole.lines()["done"] == before
        assert replace(whole, folder=tmp_path).reports() == whole.reports()

    @pytest.mark.one_loop
    def test_a_reviewer_may_leave_and_come_back(self, whole, tmp_path):
        """
        With --ask a package waits, through any number of runs, until a reviewer answers.
        """
        place = replace(whole, folder=tmp_path)

        assert "wait for a verdict" in place.run("--ask")
        assert f"packages/{REVIEWED}.md" not in place.reports()
        printed = place.run("--ask", answers="accept\n" * 3)

        assert "wait for a verdict" not in printed
        assert "**accepted** (by reviewer)" in place.reports()[f"packages/{REVIEWED}.md"]
        assert parsed_again(place.oracle_text()) == []


def test_the_checker_finds_a_file_that_is_parsed_again():
    """
    A checker that can't fail proves nothing.
    """
    assert parsed_again("start a\ndone a\nstart a\nack a\nstart b\n") == []
    assert parsed_again("start a\ndone a\nack a\nstart b\nstart a\n") == ["a"]
