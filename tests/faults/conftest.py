"""The figures of all fault tests, printed together at the end: tables to paste."""

import gc
from collections.abc import Iterator

import pytest

from tests.faults.crashes import FIGURES

HEADS = {
    "crash points": "mode | store | event loop | points | wrong | acknowledged: lost, run again "
    "| unreported | acknowledged | finished, not acknowledged, run again",
    "cancelled awaits": "call | store | event loop | awaits | open transactions | locks "
    "| tasks left | changed after the return | acknowledged lost | wrong",
    "cancelled calls": "call | event loop | awaits",
    "left iterators": "iterator | how | event loop | times | objects | tasks | threads",
    "state machine": "store | event loop | sequences | steps | differences",
    "planted bugs": "bug | store | event loop | found as",
    "open calls": "agent | store | event loop | awaits or kills | open calls met | results kept "
    "| invalid histories | invalid states | messages lost | results lost | wrong",
    "kill -9": "store | mode | event loop | kills | acknowledged | lost | run again | wrong",
    "Ctrl-C": "signal, moments | store | mode | points | late | swallowed | other errors "
    "| handler changed | tasks left | threads left | still claimed | acknowledged lost | wrong "
    "| longest, ms",
    "systems killed": "store | event loop | kills | runs | acknowledged | lost | run again | wrong "
    "| seconds until all have ended",
    "systems stopped": "store | event loop | stops | runs | taken over | wrong "
    "| stale writes accepted",
    "runs that come second": "store | event loop | the other process | runs | refused | success "
    "| wrong | changed after its return",
    "rolling deploys": "store | event loop | runs | open while only the new version lives "
    "| counted as misfits",
    "torn files": "how | event loop | copies | acknowledged lost | wrong",
    "PostgreSQL losses": "what | event loop | times | runs | failed | stored twice "
    "| threads with gaps | seconds",
    "poolers": "mode | event loop | round | runs | wrong | seconds",
    "failovers": "replica | event loop | rounds | acknowledged | lost | unreadable | failed "
    "| seconds until a run has ended: longest",
    "many at once": "what | event loop | figures",
    "SIGTERM under load": "server | times | streams: ended by a drain, by an end, cut | runs "
    "accepted | finished by the next server | acknowledged steps | lost | refused with "
    "Retry-After | refused otherwise | not taken | seconds to the exit: mean, longest",
    "delayed runs": "store | event loop | figures",
    "overload": "what | event loop | figures",
    "silent": "what | event loop | figures",
    "canaries": "what | store | mode | event loop | inputs | words found that must not be stored",
    "web": "what | server | figures",
    "OpenAPI": "what | store | figures",
    "runs dispatched to four workers": "event loop and figures",
    "dispatched runs": "what | event loop | figures",
    "ten thousand runs without a system": "event loop and figures",
    "dispatch in large numbers": "figures",
    "removals during runs": "store | event loop | interleavings | runs that ended | refused "
    "| rows after delete | checkpoints that can't be read",
}


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
    tables: dict[str, list[str]] = {}
    for report in {id(r): r for kept in terminalreporter.stats.values() for r in kept}.values():
        for table, line in getattr(report, "user_properties", ()):
            tables.setdefault(table, []).append(line)
    for table in HEADS.keys() & tables.keys():
        terminalreporter.section(table)
        terminalreporter.line(f"| {HEADS[table]} |")
        terminalreporter.line("|---" * (HEADS[table].count("|") + 1) + "|")
        for line in sorted(tables[table]):
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
