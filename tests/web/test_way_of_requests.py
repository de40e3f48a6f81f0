"""The way of a POST to its node: how much is called, and how often its thread is read."""

import pytest

from tests.support.post_path import REQUESTS, SAVERS, WayOfRequest, way_of_post

CALLS_MAX, FUNCTIONS_MAX, FILES_MAX = 540, 420, 100
"""Over a saver in memory, which has no threads of its own. Lower them when the way gets shorter."""


@pytest.fixture(scope="module", params=[(s, e) for s in SAVERS for e in REQUESTS])
def way(request) -> tuple[str, WayOfRequest]:
    saver, ending = request.param
    return saver, way_of_post(saver, ending)


def test_a_launch_is_made_once(way):
    """
    The call of a request is validated and set up in one go.
    """
    assert way[1].count_of("make_launch") == 1


def test_a_thread_is_read_once_before_its_run_is_loaded(way):
    """
    Before a run's own load the saver is asked for the thread at most once.
    """
    queries = way[1].queries
    assert queries[: queries.index("LoadCheckpoint")] in ((), ("FindThreads",))


def test_the_way_stays_short(way):
    """
    A request in memory calls no more than it does today.
    """
    saver, found = way
    if saver != "memory":
        return
    assert len(found.calls) <= CALLS_MAX
    assert found.functions <= FUNCTIONS_MAX
    assert found.files <= FILES_MAX
