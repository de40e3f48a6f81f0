"""Fixtures of the command: a database of each kind, and calls on it."""

import pytest

from tests.cli.command_runs import GRAPH, caller
from tests.support.every_saver import saver, store

__all__ = ["saver", "store"]


def place_of(store) -> str:
    """The argument of --db for a place."""
    if store.kind == "postgres":
        return f"{store.url}{'&' if '?' in store.url else '?'}schema={store.schema}"
    return str(store.path if store.kind == "sqlite" else store.path.with_name("threads.jsonl"))


@pytest.fixture
def call(request, tmp_path, capsys, monkeypatch):
    """Call the command on a new SQLite file."""
    monkeypatch.delenv("ACTORGRAPH_DB", raising=False)
    monkeypatch.setenv("ACTORGRAPH_GRAPH", GRAPH)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)  # a short path, the same in each run: outputs show it
    return caller(capsys, "runs.db")


@pytest.fixture
def call_stored(store, capsys, monkeypatch):
    """Call the command on a place of each kind that has a path or an address."""
    if not store.on_disk:
        pytest.skip("a database in memory has no path")
    monkeypatch.setenv("ACTORGRAPH_GRAPH", GRAPH)
    monkeypatch.setenv("COLUMNS", "80")
    return caller(capsys, place_of(store))
