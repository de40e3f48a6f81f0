"""The figures of all fault tests, printed together at the end: tables to paste."""

import gc
from collections.abc import Iterator

import pytest

from tests.faults.crashes import FIGURES
from tests.faults.tables import tables_of


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Send the figures along with the test's report, which may come from another process."""
    report = yield
    if call.when == "call":
        figures = item.config.stash.get(FIGURES, {})
        report.user_properties += [(t, line) for t, lines in figures.items() for line in lines]
        item.config.stash[FIGURES] = {}
    return report


def pytest_terminal_summary(terminalreporter):
    """Print the tables."""
    reports = {id(r): r for kind in terminalreporter.stats.values() for r in kind}.values()
    figures = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    for table, lines in tables_of(figures):
        terminalreporter.section(table)
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """For tests that limit CPU time: the collector skips what other tests have left behind.

    A collection of all that a thousand tests leave in a process takes seconds.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
