"""Warnings of savers and stores while the application's log fails."""

import sqlite3

import pytest
import structlog

from actorgraph import SqliteSaver
from tests.support.graphs import ab, at


@pytest.fixture
def failing_log():
    """A structlog whose last processor returns what its logger can't take."""
    structlog.configure(processors=[], cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("failing_log")
def test_a_warning_that_cannot_be_logged_fails_no_request(tmp_path, capfd):
    """
    A vacuum that finds rows of no thread removes them, though its warning can't be logged.
    """
    path = tmp_path / "runs.db"
    with SqliteSaver(path) as saver:
        ab(saver).invoke({"foo": "", "bar": []}, at())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE checkpoints SET thread = 99")
    connection.close()

    with SqliteSaver(path) as saver:
        saver.vacuum()

    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    connection.close()
    assert "orphans.removed was not logged: TypeError" in capfd.readouterr().err
