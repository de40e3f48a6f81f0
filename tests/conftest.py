"""What every test gets: both event loops, a PostgreSQL server, and one Hypothesis profile.

Async tests need no marker (`anyio_mode = "auto"`): each runs once on asyncio and once on trio.
"""

import gc
import inspect
import os

import pytest
from hypothesis import settings

from tests.support.every_saver import left_out
from tests.support.postgres_server import postgres, schema

__all__ = ["postgres", "schema"]

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


def pytest_make_parametrize_id(val: object) -> str | None:
    """Functions by their names: an address differs between the processes that share the tests."""
    return val.__qualname__ if inspect.isroutine(val) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what runs on a slower store and needn't; the longest test of all comes first.

    At the end of a run the other processes would wait for it.
    """
    items[:] = [item for item in items if not left_out(item)]
    items.sort(key=lambda item: item.name != "test_no_answer_is_outside_the_description")


def pytest_collection_finish() -> None:
    """What is imported stays: a test that collects garbage needn't look at it."""
    gc.collect()
    gc.freeze()
