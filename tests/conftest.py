"""Fixtures of every test: both event loops, a PostgreSQL server, and one Hypothesis profile.

Async tests need no marker (`anyio_mode = "auto"`): each runs once on asyncio and once on trio.
"""

import gc
import inspect
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from tests.support import saver_markers
from tests.support.few_reports import send_few_reports
from tests.support.hang_guard import HangGuard
from tests.support.known_types import same_types_afterwards
from tests.support.postgres_server import postgres, schema
from tests.support.small_heap import SmallHeap

__all__ = ["postgres", "schema"]

LONGEST = "test_no_answer_is_outside_the_description"
RULES = Path(__file__).parent
"""Folder whose own files hold rules over the source: one process parses all of it for them."""

# No deadline: a shared machine may stop for longer than any example takes.
# In CI the examples are the same at each run, so that a failure is about the change.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request):
    """
    The event loop of an async test; of module scope, so that fixtures may be wider than a test.
    """
    return request.param


@pytest.fixture(autouse=True)
def log_as_before():
    """
    No test leaves structlog configured: where the library's warnings go depends on that.
    """
    yield
    structlog = sys.modules.get("structlog")
    # Another thread may be importing it just now.
    if getattr(structlog, "is_configured", bool)():
        structlog.reset_defaults()


@pytest.fixture(autouse=True)
def types_as_before():
    """
    No test reads a value because an earlier one has stored or declared its type.
    """
    with same_types_afterwards():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `make faults` ask for the cases that `make test` leaves out."""
    help_ = (
        "run the cases that `make test` leaves out (tests/support/saver_markers.py), and no others"
    )
    parser.addoption("--long", action="store_true", help=help_)


def pytest_configure(config: pytest.Config) -> None:
    """Watch the tests of this process; pytest-xdist's first one runs none.

    Until they are collected no garbage is: nearly all that imports and collections make stays.
    """
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.register(HangGuard(), "hang-guard")
        config.pluginmanager.register(SmallHeap(), "small-heap")
        send_few_reports(config)
        gc.disable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Functions by their names: an address differs between the processes that share the tests."""
    return getattr(val, "__qualname__", None) if inspect.isroutine(val) else None


@pytest.hookimpl(tryfirst=True)  # before `-k` and the like take anything out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the kinds and loops that a test isn't marked for; put some tests first.

    At the end of a run the other processes would wait for the longest. The first process begins
    with the rules over the source: none of its first tests is handed to another.
    """
    whole_files = not any("::" in argument for argument in config.args)
    saver_markers.check(items, whole_files=whole_files)
    long = config.getoption("--long")
    needed = saver_markers.needed(items, long=long, whole_files=whole_files)
    if len(needed) < len(items):
        kept = set(needed)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = sorted(needed, key=lambda item: (item.name != LONGEST, item.path.parent != RULES))


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count in a process of pytest-xdist, which does not report what it deselects."""
    output = getattr(items[0].config, "workeroutput", None) if items else None
    if output is not None:
        output["deselected"] = output.get("deselected", 0) + len(items)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node: Any) -> None:
    """Show the count of a process in the last line; each process has collected the same tests."""
    reporter = node.config.pluginmanager.get_plugin("terminalreporter")
    count = getattr(node, "workeroutput", {}).get("deselected", 0)
    if reporter is not None and count:
        reporter.stats["deselected"] = [SimpleNamespace()] * count


def pytest_collection_finish() -> None:
    """Keep imported objects out of collections: a test that collects garbage skips them.

    Python looks at new objects each time that 700 more are alive; that is a twentieth of the tests'
    CPU time, and every 5,000 it is little.
    """
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    gc.enable()
