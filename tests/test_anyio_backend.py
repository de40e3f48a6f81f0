"""The guard of all async tests: a test that says trio must run on trio.

Another plugin that picks up coroutines would run them all on asyncio, and all would still pass.
So this asks the event loops themselves, not anyio or sniffio, which only repeat what the
plugin has set.
"""

import asyncio

import anyio
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st


def in_event_loop() -> str:
    """The event loop that drives the calling code, as the loops know it."""
    if trio.lowlevel.in_trio_run():
        return "trio"
    asyncio.get_running_loop()
    return "asyncio"


@pytest.fixture
async def loop_of_a_fixture():
    return in_event_loop()


async def test_a_test_runs_on_the_backend_that_its_name_says(anyio_backend_name):
    """
    The event loop of an async test is the one of its parameter.
    """
    assert in_event_loop() == anyio_backend_name


async def test_async_fixtures_run_on_the_same_backend(loop_of_a_fixture, anyio_backend_name):
    """
    An async fixture runs on the loop of the test that asked for it.
    """
    assert loop_of_a_fixture == anyio_backend_name


@given(number=st.integers())
async def test_hypothesis_examples_run_on_the_same_backend(anyio_backend, number):
    """
    Each example of an async property runs on the loop of its parameter.
    """
    assert in_event_loop() == anyio_backend
    assert isinstance(number, int)


async def test_worker_threads_know_no_loop():
    """
    A sync function in a worker thread is outside of both loops, as a blocking call must be.
    """

    def in_thread():
        assert not trio.lowlevel.in_trio_run()
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    await anyio.to_thread.run_sync(in_thread)


def test_an_async_test_is_collected_once_per_backend(request):
    """
    Neither backend is lost from the parameters. (No items at all: this test was run alone.)
    """
    claim = test_a_test_runs_on_the_backend_that_its_name_says
    items = [i for i in request.session.items if getattr(i, "function", None) is claim]

    assert sorted(i.callspec.id for i in items) in (["asyncio", "trio"], [])


def test_pytest_asyncio_is_not_installed(pytestconfig):
    """
    In auto mode pytest-asyncio takes over coroutines and runs them on asyncio, trio's too.
    """
    assert not pytestconfig.pluginmanager.has_plugin("asyncio")
    assert pytestconfig.getini("anyio_mode") == "auto"
