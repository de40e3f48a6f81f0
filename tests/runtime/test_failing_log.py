"""A log of the application that fails."""

import anyio
import pytest
import structlog

from actorgraph import InMemorySaver
from actorgraph.errors import SaverBrokenError
from actorgraph.testing import FaultPlan, FaultySaver
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at


@pytest.fixture
def failing_log():
    """A structlog whose processor raises."""

    def fails(*_):
        msg = "the log is full"
        raise OSError(msg)

    structlog.configure(processors=[fails], cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("failing_log")
async def test_a_failing_log_fails_nothing_else(capfd):
    """
    When a save fails and its error can't be logged, the run ends with the error of the save.
    """
    plan = FaultPlan(fail_at=3)
    async with FaultySaver(InMemorySaver(), plan) as saver:
        with anyio.fail_after(PATIENCE_S), pytest.raises(SaverBrokenError):
            await ab(saver).ainvoke({"foo": "", "bar": []}, at())

    assert "was not logged: OSError('the log is full')" in capfd.readouterr().err
