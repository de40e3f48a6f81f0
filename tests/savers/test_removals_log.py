"""Log lines about removals and about saves that fail."""

import pytest
import structlog
from structlog.testing import LogCapture

from tests.savers.test_langgraph_methods import put
from tests.support.graphs import at

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


@pytest.fixture
def log():
    """The events, as an application that has configured structlog gets them."""
    capture = LogCapture()
    structlog.configure(processors=[capture])
    yield capture.entries
    structlog.reset_defaults()


@pytest.mark.promise("S213")
async def test_removals_are_logged_with_counts(saver, log):
    """
    Each deletion, prune and copy that is done is one event with the thread and the number of
    checkpoints.
    """
    for step in range(3):
        last = await put(saver, at(), step)
    await saver.acopy_thread("t", "u")
    await saver.adelete_checkpoints("t", [last["configurable"]["checkpoint_id"]])
    await saver.aprune(["t"])
    await saver.aretention(0, 0)
    await saver.adelete_thread("u")

    told = [(e["event"], e["thread_id"], e.get("removed")) for e in log]
    assert told == [
        ("thread.copied", "u", None),
        ("checkpoints.deleted", "t", 1),
        ("thread.pruned", "t", 1),
        ("thread.expired", "t", 1),
        ("thread.expired", "u", 3),
        ("thread.deleted", "u", 0),
    ]
