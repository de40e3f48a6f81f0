"""`check_killed_worker` over savers that processes share, and over savers with a fault."""

import os
from importlib import import_module

import pytest

from actorgraph.errors import InvalidConfigError
from actorgraph.testing import check_killed_worker
from actorgraph.testing.conformance import NotOfferedError

MODULE = import_module("actorgraph.testing.killed_worker")
PROGRAM = """
import os
from actorgraph import InMemorySaver, JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.values.systems import AdoptRun
from tests.savers.places import LogSaver
from tests.savers.planted_faults import Planted, given

place = os.environ["PLACE_OF_RUNS"]

def sqlite():
    return SqliteSaver(place + "/runs.db")

def jsonl():
    return JsonlSaver(place + "/runs.jsonl")

def postgres():
    return PostgresSaver(os.environ["URL_OF_RUNS"], schema=os.environ["SCHEMA_OF_RUNS"])

def memory():
    return InMemorySaver()

def miscounted():
    return Planted(sqlite(), given(AdoptRun, attempts=7))

def log():
    return LogSaver([])
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """
    The name of a module with savers of each kind, which other processes find too.
    """
    name = f"savers_of_{os.getpid()}_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.setenv("PLACE_OF_RUNS", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_files_keep_the_run(program, kind):
    """
    The run of the killed process is ended by this one, over a file that both open.
    """
    await check_killed_worker(f"{program}:{kind}")


async def test_postgres_keeps_the_run(program, postgres, schema, monkeypatch):
    """
    The same over PostgreSQL.
    """
    monkeypatch.setenv("URL_OF_RUNS", postgres.url)
    monkeypatch.setenv("SCHEMA_OF_RUNS", schema)

    await check_killed_worker(f"{program}:postgres")


@pytest.mark.parametrize(
    ("kind", "error"), [("memory", TimeoutError), ("miscounted", AssertionError)]
)
async def test_faults_are_found(program, kind, error, monkeypatch):
    """
    A run that only its process knew, and a takeover that is stored wrongly, fail the check.
    """
    monkeypatch.setattr(MODULE, "PATIENCE_S", 15.0)

    with pytest.raises(error):
        await check_killed_worker(f"{program}:{kind}")


@pytest.mark.parametrize(
    ("name", "error"),
    [("log", NotOfferedError), ("place", InvalidConfigError), ("absent", InvalidConfigError)],
)
async def test_other_names_are_refused(program, name, error):
    """
    A saver that stores no runs is left out; a name of something else is refused.
    """
    with pytest.raises(error):
        await check_killed_worker(f"{program}:{name}")
