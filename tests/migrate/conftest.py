"""A database that LangGraph has filled, once for all tests of a file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.migrate.programs import STATES, fill, shown
from tests.support.graphs import at


class Filled:
    """LangGraph's file, and what LangGraph says of its threads."""

    def __init__(self, path: Path, durability: str | None = None) -> None:
        self.path = path
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            graph = fill(SqliteSaver(connection), durability=durability)
            self.histories = {t: shown([*graph.get_state_history(at(t))]) for t in STATES}
            self.values = {t: graph.get_state(at(t)).values for t in STATES}


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Filled:
    """Every superstep is stored."""
    return Filled(tmp_path_factory.mktemp("filled") / "lg.db")


@pytest.fixture(scope="module")
def filled_at_exit(tmp_path_factory) -> Filled:
    """Only what runs left behind is stored."""
    return Filled(tmp_path_factory.mktemp("exit") / "lg.db", "exit")
