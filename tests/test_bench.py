"""The benchmark harness: what its floors write, and how it judges. The figures are not tested."""

import contextlib
import inspect
import json
import sqlite3
from importlib import import_module
from xml.etree import ElementTree as ET

import pytest

from actorgraph.runtime.run import start
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
from tests.bench import (
    bare,
    blocking,
    catalogue,
    charts,
    floors,
    goal_rows,
    goals,
    libraries,
    pages,
    report,
    waiting,
    worker,
)
from tests.bench.catalogue import BARE, FLOOR, RAW, RIVAL, SUBJECT, WAITING, Against, Comparison
from tests.bench.runner import Outcome

SCHEMA = """
CREATE TABLE threads (thread TEXT PRIMARY KEY, epoch INTEGER, next_seq INTEGER);
CREATE TABLE checkpoints (
    thread TEXT, seq INTEGER, record TEXT, step INTEGER AS (record -> 'step'),
    PRIMARY KEY (thread, seq)
) WITHOUT ROWID;
CREATE INDEX by_step ON checkpoints (step);
"""


@pytest.fixture
def finished_run(tmp_path):
    """A database as a run of two threads with three checkpoints each leaves it."""
    path = tmp_path / "run.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        for thread in ("a", "b"):
            connection.execute("INSERT INTO threads VALUES (?, 1, 3)", [thread])
            for seq in range(3):
                row = [thread, seq, f'{{"step": {seq}}}']
                connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", row)
    return path


def outcome_of(name, **figures):
    """An outcome of a measure counted in steps/s, with these rates."""
    (measure,) = catalogue.select([name], quick=False)
    outcome = Outcome(measure)
    for side, rates in figures.items():
        outcome.runs[side] = [{"units": rate, "seconds": 1} for rate in rates]
    return outcome


class TestReplay:
    """`floors.replay`: the same rows, stored by plain sqlite3."""

    def test_it_stores_every_row_and_moves_the_head_once_per_checkpoint(self, finished_run):
        """
        The replay has the rows of the run, and each head went up by its thread's checkpoints.
        """
        figures = floors.replay(finished_run, transactions=2, per="test", units=6)

        with contextlib.closing(sqlite3.connect(finished_run.with_suffix(".floor"))) as replayed:
            heads = replayed.execute("SELECT * FROM threads").fetchall()
            steps = replayed.execute("SELECT thread, seq, step FROM checkpoints").fetchall()
        assert heads == [("a", 1, 6), ("b", 1, 6)]
        assert steps == [(thread, seq, seq) for thread in "ab" for seq in range(3)]
        assert (figures["rows"], figures["head_updates"], figures["transactions"]) == (8, 6, 2)

    def test_a_table_in_key_order_is_written_as_threads_run(self, finished_run):
        """
        Rows that a B-tree sorted by thread are dealt out again, one per thread in turn.
        """
        steps = floors.read(finished_run).tables[1]

        assert [row[:2] for row in steps.rows] == [(t, seq) for seq in range(3) for t in "ab"]

    def test_rows_are_cut_evenly_and_in_order(self):
        """
        Every transaction gets its share: sizes differ by at most one row, and none is lost.
        """
        parts = floors.cut([(n,) for n in range(7)], 3)

        assert [row for part in parts for row in part] == [(n,) for n in range(7)]
        assert sorted(map(len, parts)) == [2, 2, 3]


class TestWaitingTasks:
    """`waiting.replay`: the same rows, each superstep's handed over by a task that waits for it."""

    async def test_it_stores_what_the_run_stored(self, finished_run):
        """
        Every row is there, and each head went up by its thread's checkpoints.
        """
        figures = await waiting.replay(finished_run, units=6)

        with contextlib.closing(sqlite3.connect(finished_run.with_suffix(".waiting"))) as replayed:
            heads = replayed.execute("SELECT * FROM threads ORDER BY thread").fetchall()
            steps = replayed.execute("SELECT thread, seq, step FROM checkpoints").fetchall()
        assert heads == [("a", 1, 6), ("b", 1, 6)]
        assert steps == [(thread, seq, seq) for thread in "ab" for seq in range(3)]
        assert figures["batches"]["messages"] == 6

    def test_the_rows_of_a_superstep_stay_together(self, finished_run):
        """
        A thread's own row is written with its first superstep, before the head moves.
        """
        first, *later = waiting.steps_of(floors.read(finished_run))[0]

        assert [sql.split()[0] for sql, _ in first] == ["INSERT", "INSERT", "UPDATE"]
        assert [[sql.split()[0] for sql, _ in step] for step in later] == [["INSERT", "UPDATE"]] * 2


class TestVerdict:
    """`report`: the median against the bar."""

    def test_a_rate_is_compared_with_the_rivals_median(self):
        """
        One slow repetition does not decide; the ratio is median over median.
        """
        outcome = outcome_of("loop", **{SUBJECT: [90, 10, 80], RIVAL: [10, 11, 10]})
        bar = Comparison(Against.RIVAL, at_least=8)

        assert report.ratio(outcome, bar) == 8
        assert report.verdict(report.ratio(outcome, bar), bar) == "reached"

    def test_a_cost_is_a_multiple_of_its_floor(self):
        """
        A lower-is-better figure above the allowed multiple fails.
        """
        outcome = outcome_of("sqlite-one", **{SUBJECT: [1000], FLOOR: [4000]})
        bar = Comparison(Against.COST_OVER_FLOOR, at_most=3)

        assert report.ratio(outcome, bar) == 4
        assert report.verdict(report.ratio(outcome, bar), bar) == "NOT REACHED"

    def test_cpu_time_over_a_floor_is_a_multiple_too(self):
        """
        Where the cost is a multiple of the floor's, so is the CPU time.
        """
        outcome = outcome_of("sqlite-one", **{SUBJECT: [1000], FLOOR: [1000]})
        outcome.runs[SUBJECT][0]["cpu_seconds"] = 0.3
        outcome.runs[FLOOR][0]["cpu_seconds"] = 0.1

        assert report.cpu_ratio(outcome, Comparison(Against.COST_OVER_FLOOR)) == pytest.approx(3)

    def test_a_goal_is_distinct_from_a_requirement(self):
        """
        A missed goal reads softer than a missed requirement, and the bar names the goal.
        """
        goal = Comparison(Against.RIVAL, at_least=8, required=False)
        bar = Comparison(Against.RIVAL, at_least=8)

        assert report.verdict(7, goal) == "not reached"
        assert report.verdict(7, bar) == "NOT REACHED"
        assert report.required(goal, catalogue.Unit.STEPS) == ">= 8x (goal)"
        assert report.required(bar, catalogue.Unit.STEPS) == ">= 8x"

    def test_cpu_time_is_beside_wall_clock(self):
        """
        A line has the CPU microseconds of both sides, and how many times ours theirs is.
        """
        outcome = outcome_of("loop", **{SUBJECT: [100], RIVAL: [10]})
        outcome.runs[SUBJECT][0]["cpu_seconds"] = 0.001
        outcome.runs[RIVAL][0]["cpu_seconds"] = 0.0005

        line = report.comparison_table([outcome])[-1]

        assert [cell.strip() for cell in line.split("|")[8:10]] == ["10.0, 50.0", "5x"]

    def test_a_loop_beside_others_is_compared_with_the_fastest(self):
        """
        The ratio is to the best of the other libraries; one without such calls has a dash.
        """
        rates = {SUBJECT: [90], "burr": [30], "pydantic-graph": [10]}
        outcome = outcome_of("others-blocking", **rates)

        line = report.others_table([outcome])[-1]

        assert [cell.strip() for cell in line.split("|")[2:8]] == [
            *("90 (-)", "30 (-)", "10 (-)", "-", "-", "3x"),
        ]

    def test_a_share_of_what_waiting_tasks_get_has_a_line_of_its_own(self):
        """
        One figure is compared with both floors, each with its own side.
        """
        figures = {SUBJECT: [100], FLOOR: [1000], WAITING: [400]}
        outcome = outcome_of("threads-sync", **figures)
        shares = [
            report.shown_ratio(report.ratio(outcome, each), each.against)
            for each in outcome.measure.comparisons
        ]

        assert shares[1:] == ["10%", "25%"]

    def test_an_unmeasured_ratio_does_not_pass(self):
        """
        Without LangGraph's side the ratio is missing, and the verdict says so.
        """
        outcome = outcome_of("loop", **{SUBJECT: [90]})
        (bar,) = outcome.measure.comparisons

        assert report.ratio(outcome, bar) is None
        assert report.verdict(None, bar) == "not measured"


class TestCatalogue:
    """`catalogue.MEASURES`: the list of rows."""

    @pytest.mark.parametrize("quick", [False, True])
    def test_every_measure_has_a_workload_that_takes_its_arguments(self, quick):
        """
        Each measure names a function that exists and can be called with these arguments.
        """
        for measure in catalogue.select(None, quick=quick):
            module, _, name = measure.workload.rpartition(".")
            default = "mailboxes" if measure.sides == (RAW,) else "workloads"
            function = getattr(import_module(f"tests.bench.{module or default}"), name)
            given = () if measure.sides == (RAW,) else ("library", "path")
            added = {"url": "postgresql://"} if measure.server else {}

            inspect.signature(function).bind(*given, **measure.arguments, **added)

    def test_names_are_unique(self):
        """
        No two measures have the same name, by which figures are stored and found.
        """
        names = [measure.name for measure in catalogue.MEASURES]

        assert len(names) == len(set(names))

    def test_a_group_is_picked_by_its_name(self):
        """
        `--group others` measures the loops of other libraries and nothing else.
        """
        chosen = catalogue.select(None, quick=False, groups=["others"])

        assert {measure.name.partition("-")[0] for measure in chosen} == {"others"}


class TestWorker:
    """`worker.call`: one workload in its process."""

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("loop", {"steps": 3, "saver": "sqlite"}),
            ("one_step", {"calls": 3, "saver": "memory"}),
            ("stream", {"steps": 3, "saver": None}),
            ("fan_out", {"tasks": 3, "rounds": 1, "sleep_s": 0}),
        ],
    )
    def test_blocking_programs_have_no_event_loop(self, name, arguments, tmp_path):
        """
        A workload without `async` is called directly, and counts its units.
        """
        assert not inspect.iscoroutinefunction(getattr(blocking, name))
        request = {"arguments": arguments, "backend": "asyncio"}

        library = libraries.load("actorgraph")
        figures = worker.call(request, f"blocking.{name}", "workloads", library, tmp_path / "db")

        assert figures["units"] == 3

    def test_a_value_is_carried_through_all_steps(self, tmp_path):
        """
        The workload with a large value ends with that value, on a SQLite file.
        """
        arguments = {"steps": 3, "value_bytes": 10_000, "saver": "sqlite"}
        request = {"arguments": arguments, "backend": "asyncio"}

        library = libraries.load("actorgraph")
        figures = worker.call(request, "large_value", "workloads", library, tmp_path / "db")

        assert figures["units"] == 3

    @pytest.mark.parametrize("history", [False, True])
    def test_a_large_value_is_read_back(self, history, tmp_path):
        """
        The workload that reads large values finds the last one in the newest snapshot.
        """
        arguments = {"steps": 2, "value_bytes": 10_000, "history": history}
        request = {"arguments": arguments, "backend": "asyncio"}

        library = libraries.load("actorgraph")
        figures = worker.call(request, "large_reads", "workloads", library, tmp_path / "db")

        assert figures["units"] == 1


FACTS = {"python": "3.11.7", "cores": 2, "libraries": ["actorgraph 0.1.0", "langgraph 1.2.22"]}


def document_of(outcomes, *, quick=False):
    """Figures as the harness stores and a page reads them."""
    measures = [report.as_json(outcome) for outcome in outcomes]
    return json.loads(json.dumps({"quick": quick, "facts": FACTS, "measures": measures}))


class TestPages:
    """`pages`: measured figures in README.md and docs/benchmarks.md."""

    def test_the_readme_shows_plain_functions_first(self):
        """
        The programs that people write come before the best case, and tokens last, each with
        its ratio.
        """
        best = outcome_of("loop", **{SUBJECT: [300], RIVAL: [20]})
        usual = outcome_of("invoke", **{SUBJECT: [50], RIVAL: [10]})

        tokens = {side: [{"cpu_us": cost}] for side, cost in ((SUBJECT, 200), (RIVAL, 500))}
        document = {**document_of([best, usual]), "tokens": {"runs": {"messages": tokens}}}

        lines = pages.readme_part(document).splitlines()

        assert "LangGraph 1.2.22 on the same machine (2 cores, CPython 3.11" in lines[0]
        cells = [[cell.strip() for cell in line.split("|")[1:5]] for line in lines[4:]]
        assert cells == [
            [pages.ROWS["invoke"], "50 steps/s", "10", "5x"],
            [pages.ROWS["loop"], "300 steps/s", "20", "15x"],
            [pages.TOKENS_ROW, "200.0 us", "500.0", "2.5x"],
        ]

    def test_every_row_of_the_readme_is_a_measure(self):
        """
        No row of the README's table names a measure that the catalogue has not.
        """
        names = {measure.name for measure in catalogue.MEASURES}

        assert names >= {*pages.ROWS}

    def test_only_the_place_of_figures_changes(self):
        """
        Text around the two comments is kept, text between them is replaced.
        """
        page = f"above\n{pages.BEGIN}\nold\n{pages.END}\nbelow\n"

        assert pages.filled(page, "new") == (f"above\n{pages.BEGIN}\n\nnew\n\n{pages.END}\nbelow\n")

    @pytest.mark.parametrize("path", [pages.README, pages.PAGE])
    def test_the_pages_have_a_place_for_figures(self, path):
        """
        Each page has the two comments once, so that one command renews its figures.
        """
        text = path.read_text("utf-8")

        assert (text.count(pages.BEGIN), text.count(pages.END)) == (1, 1)

    def test_quick_figures_are_refused(self, tmp_path):
        """
        Figures of `--quick` and missing ones come to no page.
        """
        quick = tmp_path / "quick.json"
        quick.write_text(json.dumps(document_of([], quick=True)), "utf-8")

        with pytest.raises(pages.NoFigures, match="--quick"):
            pages.load(quick)
        with pytest.raises(pages.NoFigures, match="make bench"):
            pages.load(tmp_path / "missing.json")

    @pytest.mark.skipif(not pages.FIGURES.exists(), reason="no docs/benchmarks.json yet")
    def test_pages_and_charts_are_those_of_the_stored_figures(self):
        """
        README.md, docs/benchmarks.md and the charts say what docs/benchmarks.json says.
        """
        document = pages.load(pages.FIGURES)

        for path, part in ((pages.README, pages.readme_part), (pages.PAGE, pages.page_part)):
            text = path.read_text("utf-8")
            assert pages.filled(text, part(document)) == text, "make figures"
        for name, picture in pages.drawn(document).items():
            assert pages.PAGE.with_name(name).read_text("utf-8") == picture, "make charts"


class TestGoals:
    """`goals`: the figures that the two drivers were to reach."""

    def test_every_speed_is_a_measure(self):
        """
        What the table takes from the benchmark is in the catalogue, LangGraph's side included.
        """
        chosen = catalogue.select(goals.speed_names(), quick=False)

        assert len(chosen) == len(goals.speed_names())
        assert all(set(measure.sides) >= {SUBJECT, RIVAL} for measure in chosen)

    def test_each_row_has_its_verdict(self):
        """
        Each number of a row must reach its bar, in the bar's direction; a missing one is said.
        """
        figures = {"invoke": (7.04, 6.9), "post": (350, 221, 45), "dependencies": (7,)}

        shown = {row[0].partition(":")[0]: row[3:] for row in goals.rows(figures)}

        assert len(shown) == len(goals.GOALS)
        assert shown["blocking `invoke`, no saver"] == ["7.04 (CPU 6.9)", "reached"]
        assert shown["POST to its node, memory"] == ["350 / 221 / 45", "not reached"]
        assert shown["core dependencies"] == ["7", "reached"]
        assert shown["blocking `stream`"] == ["-", "not measured"]

    def test_speeds_are_those_of_the_benchmark(self):
        """
        A ratio by the clock and by CPU; a plain router's CPU beside that of an async one.
        """
        plain = outcome_of("threads-plain-path-none", **{SUBJECT: [50], RIVAL: [10]})
        other = outcome_of("threads-none", **{SUBJECT: [100], RIVAL: [10]})
        for outcome, ours in ((plain, 0.03), (other, 0.02)):
            outcome.runs[SUBJECT][0]["cpu_seconds"] = ours
            outcome.runs[RIVAL][0]["cpu_seconds"] = 0.2

        found = goals.speeds(document_of([plain, other]))

        assert found["threads-none"] == (10, pytest.approx(100))
        assert goal_rows.floor_of("threads-none") not in found
        assert found["router-none"] == (pytest.approx(3),)

    def test_a_floor_is_beside_its_speed(self):
        """
        The bare driver's ratio to LangGraph, by the clock and by CPU, stands behind ours.
        """
        outcome = outcome_of("invoke", **{SUBJECT: [60], BARE: [75], RIVAL: [10]})
        for side, seconds in ((SUBJECT, 1.2), (BARE, 1.2), (RIVAL, 1.0)):
            outcome.runs[side][0]["cpu_seconds"] = seconds

        rows = list(goals.rows(goals.speeds(document_of([outcome]))))

        assert rows[0][3:] == ["6 (CPU 5), floor 7.5 (CPU 6.25)", "not reached"]

    def test_the_bare_driver_gives_the_same_results(self, tmp_path):
        """
        Each blocking program ends as it does over the library's driver, whose place is left as it
        was: a floor that does less of the program's work would be none.
        """
        library = libraries.load("actorgraph")
        for saver in (None, "memory", "sqlite"):
            figures = bare.loop(library, tmp_path / f"{saver}.db", steps=20, saver=saver)
            assert figures["units"] == 20
        assert bare.one_step(library, tmp_path / "calls.db", calls=3, saver="memory")["units"] == 3
        assert bare.stream(library, tmp_path / "items.db", steps=20, saver=None)["units"] == 20

        assert start.BlockingSupervisor is BlockingSupervisor

    def test_classes_are_counted_upward(self):
        """
        The longest chain counts, and only classes of the package.
        """
        base = type("Base", (), {"__module__": "actorgraph.made_up"})
        deep = type("Deep", (base,), {"__module__": "actorgraph.made_up"})
        cls = type("Both", (deep, dict), {"__module__": "actorgraph.made_up"})

        assert goals.depth(cls) == 3

    def test_the_ways_of_a_plain_function_exist(self):
        """
        The list that is kept by hand names nothing that is gone.
        """
        for name in goals.WAYS:
            module, _, last = name.rpartition(".")
            assert callable(getattr(import_module(module), last))


def luminance(colour):
    """The relative luminance of a colour like "#2f81f7"; WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    """The contrast of two colours: 1 for equal ones, 21 for black on white."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class TestCharts:
    """`charts`: curves of the measured figures."""

    def test_a_curve_has_a_point_per_size_in_order(self):
        """
        The number in a measure's name is the point's place, its median the height.
        """
        measures = [
            outcome_of(f"threads-{count}", **{SUBJECT: [count * 10], RIVAL: [count]})
            for count in (1000, 1, 30)
        ]

        chart = charts.threads_chart(document_of(measures)["measures"])

        assert chart.curves == {
            SUBJECT: [(1, 10), (30, 300), (1000, 10_000)],
            RIVAL: [(1, 1), (30, 30), (1000, 1000)],
        }

    def test_a_picture_names_both_sides_and_rises_with_the_figures(self):
        """
        The picture is XML, each curve has its name, and higher values are higher up.
        """
        chart = charts.Chart("Title & more", "x", {SUBJECT: [(1, 5), (10, 50), (100, 500)]})

        root = ET.fromstring(charts.draw(chart))  # noqa: S314 - drawn here

        names = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
        heights = [float(dot.get("cy")) for dot in dots]
        assert "Title & more" in names
        assert "actorgraph" in names
        assert heights == sorted(heights, reverse=True)
        assert len(set(heights)) == 3

    def test_colours_are_read_on_light_and_dark_pages(self):
        """
        Texts and curves have a contrast of 3 or more with white and with a nearly black page.
        """
        for colour in (charts.TEXT, *charts.COLOURS.values()):
            assert contrast(colour, "#ffffff") >= 3, colour
            assert contrast(colour, "#0d1117") >= 3, colour
