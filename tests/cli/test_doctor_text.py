"""The text of doctor at two widths, compared with stored pictures.

RENEW_SNAPSHOTS=1 writes them again: read their diff before you commit it.
"""

import io
import os

import pytest
from rich.console import Console

from actorgraph.cli.commands.examine import draw
from actorgraph.cli.doctor.examining import Report
from actorgraph.cli.doctor.judging import diagnose
from tests.cli.doctor_plants import PLANTED
from tests.support.source_files import ROOT

SHOWN = ("graph.no-saver", "node.blocking-call", "saver.old-schema", "web.no-rate-limit")
FOLDER = ROOT / "tests/cli/snapshots"


def text(width):
    findings = sorted(
        (one for code in SHOWN for one in diagnose(PLANTED[code][0])),
        key=lambda one: SHOWN.index(one.code),
    )
    out = io.StringIO()
    draw(
        Console(file=out, width=width, highlight=False, emoji=False, markup=False),
        Report(("graph chat", "database runs.db"), tuple(findings)),
    )
    return out.getvalue()


class TestText:
    @pytest.mark.parametrize("width", [80, 140])
    def test_findings_fit_into_the_width(self, width):
        """
        Each finding has its severity, code and place, the fact, and the remedy.
        """
        file = FOLDER / f"doctor-{width}.txt"
        shown = text(width)
        if os.environ.get("RENEW_SNAPSHOTS"):
            FOLDER.mkdir(exist_ok=True)
            file.write_text(shown, "utf-8")

        assert shown == file.read_text("utf-8")
        assert max(map(len, shown.splitlines())) <= width

    def test_a_report_without_findings_says_so(self):
        """
        The last line counts the findings, or states the absence of any.
        """
        out = io.StringIO()

        draw(Console(file=out, width=80), Report(("graph chat",), ()))

        assert out.getvalue().splitlines() == ["examined graph chat", "", "no findings"]
