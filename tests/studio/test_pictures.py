"""The studio's drawings: waterfalls of tasks, charts of figures, and the files that it serves."""

import gzip
import re
from hashlib import sha256
from importlib import resources
from xml.etree import ElementTree as ET

from actorgraph.studio.charts import chart
from actorgraph.studio.waterfall import TaskBar, waterfall

STATIC = resources.files("actorgraph.studio") / "static"
VENDORED = {
    "htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "idiomorph-ext.min.js": "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e",
}


def bars(svg):
    root = ET.fromstring(svg)  # noqa: S314 - made here
    return list(root.iter("rect"))


class TestWaterfall:
    def test_bars_have_the_place_and_length_of_their_times(self):
        """
        A task that begins halfway and lasts a quarter of the time has its bar there.
        """
        found = bars(
            waterfall([TaskBar("a", 0, "done", 0, 1000), TaskBar("b", 1, "done", 500, 750)], 0)
        )

        a, b = [(float(one.get("x")), float(one.get("width"))) for one in found]
        assert abs(b[0] - a[0] - a[1] / 2) < 0.2
        assert abs(b[1] - a[1] / 4) < 0.2

    def test_a_running_task_lasts_until_now(self):
        """
        A task without an end has a bar up to the moment of the drawing.
        """
        (found,) = bars(waterfall([TaskBar("a", 0, "running", 1_000_000)], 3_000_000))

        assert "2 s" in found.find("title").text
        assert found.get("class") == "bar running"

    def test_tasks_without_times_have_no_axis(self):
        """
        Tasks whose times weren't recorded are drawn in their order, without seconds made up.
        """
        drawn = waterfall([TaskBar("a", 0, "done"), TaskBar("b", 1, "done", 500, 750)], 0)

        assert "axis" not in drawn
        assert 'aria-label="2 tasks in their order"' in drawn

    def test_tasks_without_times_are_drawn_by_steps(self):
        """
        Old checkpoints have no times: each step takes a unit.
        """
        first, second = bars(waterfall([TaskBar("a", 3, "done"), TaskBar("b", 4, "done")], 0))

        assert float(second.get("x")) > float(first.get("x"))

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

    def test_a_chart_without_samples_has_its_title_alone(self):
        """
        A chart before the first sample shows 0.
        """
        assert "polyline" not in chart("Queued", [])


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
