"""The way of a POST to its node: how much is called, and how often its thread is read."""

import pytest

from tests.support.post_path import REQUESTS, SAVERS, Figures, figures_in_new_process

CALLS_MAX, FUNCTIONS_MAX, FILES_MAX = 540, 420, 100
"""Over a saver in memory, which has no threads of its own. Lower them when the way gets shorter."""


@pytest.fixture(scope="module")
def figures() -> dict[tuple[str, str], Figures]:
    """
    One process counts them all.
    """
    return figures_in_new_process()


@pytest.mark.parametrize("ending", REQUESTS)
@pytest.mark.parametrize("saver", SAVERS)
class TestTheWay:
    """The calls from the application to the node."""

    def test_a_launch_is_made_once(self, figures, saver, ending):
        """
        The call of a request is validated and set up in one go.
        """
        assert figures[saver, ending].launches == 1

    def test_a_thread_is_read_once_before_its_run_is_loaded(self, figures, saver, ending):
        """
        Before a run's own load the saver is asked for the thread at most once.
        """
        queries = figures[saver, ending].queries
        assert queries[: queries.index("LoadCheckpoint")] in ([], ["FindThreads"])


@pytest.mark.parametrize("ending", REQUESTS)
def test_the_way_stays_short(figures, ending):
    """
    A request in memory calls no more than it does today.
    """
    found = figures["memory", ending]
    assert found.calls <= CALLS_MAX
    assert found.functions <= FUNCTIONS_MAX
    assert found.files <= FILES_MAX
