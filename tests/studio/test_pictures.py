"""The studio's drawings: waterfalls of tasks, charts of figures, and the files that it serves."""

import gzip
import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import resources
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.internals import PUSH
from actorgraph.studio.charts import chart, nice_top
from actorgraph.studio.shown import age_of, ago, preview
from actorgraph.studio.steps import timed_bars
from actorgraph.studio.waterfall import FOLD_WIDTH, TaskBar, scale_of, waterfall
from actorgraph.types import TaskAttempt, TimelineStep, TimelineTask

SECOND = 1_000_000
HOUR = 3600 * SECOND
STATIC = resources.files("actorgraph.studio") / "static"
VENDORED = {
    "htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "idiomorph-ext.min.js": "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e",
}


def bars(html):
    root = ET.fromstring(f"<div>{html}</div>")  # noqa: S314 - made here
    return [one for one in root.iter("rect") if "bar" in one.get("class")]


def place_of(bar):
    """The beginning and the width of a bar, in percent."""
    return float(bar.get("x").rstrip("%")), float(bar.get("width").rstrip("%"))


class TestWaterfall:
    def test_bars_have_the_place_and_length_of_their_times(self):
        """
        A task that begins halfway and lasts a quarter of the time has its bar there.
        """
        found = bars(
            waterfall([TaskBar("a", 0, "done", 0, 1000), TaskBar("b", 1, "done", 500, 750)], 0)
        )

        a, b = [place_of(one) for one in found]
        assert abs(b[0] - a[0] - a[1] / 2) < 0.2
        assert abs(b[1] - a[1] / 4) < 0.2

    def test_a_running_task_lasts_until_now(self):
        """
        A task without an end has a bar up to the moment of the drawing.
        """
        (found,) = bars(waterfall([TaskBar("a", 0, "running", 1_000_000)], 3_000_000))

        assert "2 s" in found.find("title").text
        assert found.get("class") == "bar running"

    def test_tasks_without_times_are_not_drawn(self):
        """
        Tasks of which no time is known are listed, without bars made up; beside others they are
        counted.
        """
        listed = waterfall([TaskBar("a", 3, "done"), TaskBar("b", 4, "failed")], 0)
        assert bars(listed) == []
        assert "Times of these tasks are not known" in listed

        drawn = waterfall([TaskBar("a", 0, "done"), TaskBar("b", 1, "done", 500, 750)], 0)
        assert len(bars(drawn)) == 1
        assert "Without 1 task whose times" in drawn

    def test_waiting_is_folded(self):
        """
        Three hours in which a question waited take the width of a fold, and are said; the work
        beside them stays wide.
        """
        asked = TaskBar("ask", 1, "waiting", 100_000, 200_000)
        answered = TaskBar("ask", 1, "done", 3 * HOUR, 3 * HOUR + 200_000, 2)
        drawn = waterfall([asked, answered], 0)

        (x, wide), (y, wider) = [place_of(one) for one in bars(drawn)]
        assert abs(y - x - wide - FOLD_WIDTH) < 0.1
        assert abs(wider - 2 * wide) < 0.1
        assert "Waiting is folded: 3 h for a person." in drawn

    def test_the_delay_of_a_retry_is_no_wait_for_a_worker(self):
        """
        Between a failed attempt and the next one it is the retry that was waited for.
        """
        bars = [
            TaskBar("a", 0, "failed", 0, SECOND),
            TaskBar("a", 0, "done", 9 * SECOND, 10 * SECOND, 2),
        ]
        assert [one.why for one in scale_of(bars, 0).folds] == ["for a retry"]

    def test_each_fold_says_what_it_waited_for(self):
        """
        Between tasks of two runs it is the next run, inside of a run a worker, and an open question
        waits until now.
        """
        bars = [
            TaskBar("a", 0, "done", 0, SECOND, run="1"),
            TaskBar("b", 1, "done", 10 * SECOND, 11 * SECOND, run="1"),
            TaskBar("c", 2, "done", 30 * SECOND, 31 * SECOND, run="2"),
            TaskBar("c", 2, "waiting", 31 * SECOND, asks=True),
        ]
        folds = [(one.why, one.end - one.start) for one in scale_of(bars, HOUR).folds]

        assert folds == [
            ("for a worker", 9 * SECOND),
            ("for the next run", 19 * SECOND),
            ("for a person", HOUR - 31 * SECOND),
        ]

    @given(
        st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=9)
    )
    def test_every_bar_is_inside_of_the_drawing(self, times):
        """
        Whatever is folded, bars begin and end between 0 and 100 percent, in their order.
        """
        drawn = waterfall([TaskBar("a", 0, "done", at, at + lasts) for at, lasts in times], 0)
        places = [place_of(one) for one in bars(drawn)]

        assert all(x >= 0 and x + width <= 100.02 for x, width in places)
        order = sorted(zip(times, places, strict=True))
        assert [x for _, (x, _) in order] == sorted(x for x, _ in places)

    def test_sends_have_their_number(self):
        """
        Tasks of Sends to one node are told apart, and what has not ended yet is counted by node.
        """
        done = TimelineTask("1", "work", (PUSH, 1, "work"), "done", (TaskAttempt(0, 9, "done"),))
        step = TimelineStep(1, "c", None, "", "loop", None, 0, ("work", "work"), (done,))

        found = timed_bars([step], busy=True)
        assert [(bar.name, bar.state) for bar in found] == [
            ("work [1]", "done"),
            ("work", "running"),
        ]

    def test_names_and_errors_are_escaped(self):
        """
        Markup in a node's name or an error stays text.
        """
        svg = waterfall([TaskBar("<script>", 0, "failed", 0, 1, error='"><img>')], 0)

        assert "<script>" not in svg
        assert "<img>" not in svg
        assert bars(svg)

    def test_a_thread_without_tasks_is_not_drawn(self):
        """
        A thread without steps has no empty picture.
        """
        assert waterfall([], 0) == ""


class TestCharts:
    def test_the_highest_value_is_the_highest_point(self):
        """
        The line's highest point is that of the largest value, and the label names it.
        """
        svg = chart("Queued", [0, 5, 10, 5], " runs")

        points = re.search(r'points="([^"]+)"', svg).group(1).split()
        heights = [float(point.split(",")[1]) for point in points]
        assert heights.index(min(heights)) == 2
        assert "now 5 runs, at most 10 runs" in svg

    @given(st.floats(1e-6, 1e12))
    def test_a_scale_ends_at_a_round_number_that_holds_the_values(self, most):
        """
        The end of the scale is at least the largest value, and at most 2.5 times as much.
        """
        assert most <= nice_top(most) <= most * 2.500001

    def test_axes_have_units_and_times(self):
        """
        The scale names its end with the unit, its middle and 0, and how far back the line goes.
        """
        svg = chart("Latency", [3.0, 8.0], " ms", span_s=600)

        assert [
            one for one in (">10 ms<", ">5<", ">0<", ">10 min ago<", ">now<") if one not in svg
        ] == []

    def test_a_chart_without_samples_has_its_title_alone(self):
        """
        A chart before the first sample shows 0.
        """
        assert "polyline" not in chart("Queued", [])


class TestTexts:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (1, "1 second"),
            (59, "59 seconds"),
            (60, "1 minute"),
            (7200, "2 hours"),
            (90_000, "1 day"),
        ],
    )
    def test_ages_are_words(self, seconds, text):
        """
        An age has its largest whole unit, and the moment keeps its exact time for the title.
        """
        now = datetime(2026, 1, 2, tzinfo=UTC)
        assert age_of(seconds) == text
        found = ago(now - timedelta(seconds=seconds), now)
        assert found.text == f"{text} ago"
        assert datetime.fromisoformat(found.iso) == now - timedelta(seconds=seconds)

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"question": "Approve?", "schema": {"type": "object"}}, "Approve?"),
            ("two\nlines", "two lines"),
            ({"amount": 3}, '{"amount":3}'),
            ("x" * 500, "x" * 119 + "…"),
        ],
    )
    def test_previews_are_one_line(self, value, text):
        """
        A question is shown by what it says, anything else as a text of one line that is cut.
        """
        assert preview(value) == text


class TestFiles:
    def test_vendored_scripts_are_unchanged(self):
        """
        The scripts of others are those of their releases, byte for byte, with their licences.
        """
        for name, digest in VENDORED.items():
            assert sha256((STATIC / name).read_bytes()).hexdigest() == digest
        assert {one.name for one in (STATIC / "licences").iterdir()} == {
            "htmx.txt",
            "idiomorph.txt",
        }

    def test_files_are_small(self):
        """
        All that a page loads has at most 120 kB, 40 kB compressed.
        """
        parts = [one.read_bytes() for one in STATIC.iterdir() if one.is_file()]

        assert sum(map(len, parts)) <= 120_000
        assert sum(len(gzip.compress(part)) for part in parts) <= 40_000
