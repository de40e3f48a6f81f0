"""`make behaviour`: the tests of graphs, run under the blocking driver.

Used as     `pytest -p tests.support.blocking_plugin tests/api ...`
Skips       tests that mean nothing there: those of blocking_driver.toml, by reason
Prints      how many runs took the blocking driver, and how many tests were skipped why
"""

import signal
import tomllib
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.blocking_driver import COUNTS, NotApplicableError, installed

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60
"""Seconds after which a test that waits for what never comes fails."""

PROPERTY = "blocking runs"
_STACK = ExitStack()


def table() -> dict[str, list[str]]:
    """Reason -> the tests that aren't run for it."""
    text = Path(__file__).with_name("blocking_driver.toml").read_text("utf-8")
    return tomllib.loads(text)["not_applicable"]


def reason_of(test: str, reasons: Mapping[str, Sequence[str]]) -> str | None:
    """Why a test isn't run, by its id; None if it is."""
    bare = test.partition("[")[0] + "::"
    for reason, tests in reasons.items():
        if any(bare.startswith((f"{entry}::", f"{entry}/")) for entry in tests):
            return reason
    return None


def pytest_configure() -> None:
    """Change the graphs of all tests, before modules make theirs."""
    _STACK.enter_context(installed())


def pytest_unconfigure() -> None:
    """Change graphs no more."""
    _STACK.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out trio's cases, which would run the same again; skip what the table names."""
    reasons = table()
    again = [item for item in items if _on_trio(item)]
    if again:
        config.hook.pytest_deselected(items=again)
        items[:] = [item for item in items if not _on_trio(item)]
    for item in items:
        reason = reason_of(item.nodeid, reasons)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _on_trio(item: pytest.Item) -> bool:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return params.get("anyio_backend") == "trio"


def _give_up(*_: object) -> None:
    msg = f"the test has not ended within {LIMIT_S} s"
    raise TimeoutError(msg)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Count the runs of a test; skip it if a graph of it can't be made plain."""
    COUNTS.clear()
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(LIMIT_S)
    try:
        return (yield)
    except (NotApplicableError, BaseExceptionGroup) as error:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, NotApplicableError):
            pytest.skip(str(error))
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        item.user_properties.append((PROPERTY, (COUNTS["runs"], COUNTS["caller"])))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the counts."""
    stats = terminalreporter.stats
    ran = [r for name in ("passed", "failed") for r in stats.get(name, ()) if r.when == "call"]
    counts = [dict(report.user_properties).get(PROPERTY, (0, 0)) for report in ran]
    runs, taken = (sum(count[place] for count in counts) for place in (0, 1))
    blocking = sum(count[1] > 0 for count in counts)
    why = Counter(report.longrepr[2] for report in stats.get("skipped", ()))
    terminalreporter.section("blocking driver")
    terminalreporter.write_line(f"{len(ran)} tests, {blocking} of them had a stepper")
    terminalreporter.write_line(f"{runs} runs by blocking calls, {taken} in a stepper")
    for reason, count in why.most_common():
        terminalreporter.write_line(f"{count} not run: {reason.removeprefix('Skipped: ')}")
