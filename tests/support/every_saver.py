"""Savers of every kind, as fixtures: a test runs once per kind and event loop.

`store` is a fixture of the folders whose conftest.py imports it: a place for checkpoints of one
kind. `store.saver()` opens nothing; `store.again()` is what a new process would make.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actorgraph import InMemorySaver, JsonlSaver, PostgresSaver, SqliteSaver
from tests.support.postgres_server import PostgresServer
from tests.support.promises import ids_in

KINDS = ["memory", "sqlite", "sqlite-memory", "jsonl", "postgres"]

SLOWER = ("postgres", "jsonl")

ON_SLOWER = {
    *("test_durability", "test_interrupts", "test_one_run_per_thread", "test_resume_once"),
    *("test_hosting", "test_calls", "test_traveling", "test_task_values", "test_nested_state"),
    *("test_delta", "test_addresses", "test_session_savers", "test_sessions"),
    *("test_state_machine", "test_system", "test_system_drain", "test_system_readers"),
    *("test_system_taking_over", "test_system_elsewhere", "test_graphs_of_threads"),
    *("test_system_misfits", "test_stored_inputs"),
}
"""The modules outside of tests/savers that run on PostgreSQL and on files too, on asyncio: they
take time, and what they show needs one store of each kind. A test that shows a promise runs on
each kind wherever it is."""

ONE_LOOP = (
    *("TestRandomThreads", "test_encrypted_file", "test_forged_rows", "test_injection"),
    *("test_nothing_deleted_is_left_on_the_disk", "test_what_is_refused_is_refused_everywhere"),
    *("test_what_a_replay_is_about_to_read_may_go", "TestPoison", "test_canaries"),
)
"""Tests in tests/savers that run on the slower stores on asyncio alone: they are about what is
stored, and it is the same code that stores it for either loop."""


def left_out(item: pytest.Item) -> bool:
    """Whether a test would run on a kind of store that needn't show it, or not on each loop."""
    ids = item.name.rpartition("[")[2].rstrip("]").split("-")
    if "-sqlite-memory" in item.name and "store" in getattr(item, "fixturenames", ()):
        return "trio" in ids and item.path.parent.name not in {"savers", "stores"}
    if not any(kind in ids for kind in SLOWER) or item.path.parent.name == "faults":
        return False
    if item.path.stem == "test_system_crash":  # it says itself what runs where
        return False
    if item.path.parent.name == "stores":
        return "trio" in ids and item.path.stem != "test_places"
    if item.path.parent.name == "savers":
        return "trio" in ids and any(name in item.nodeid for name in ONE_LOOP)
    return "trio" in ids or not (item.path.stem in ON_SLOWER or _shows_a_promise(item))


def _shows_a_promise(item: pytest.Item) -> bool:
    """Whether the test or its class names a promise or a defect: it must hold on every saver."""
    shown = (getattr(item, "function", None), getattr(item, "cls", None))
    return any(i[0] in "SD" for part in shown for i in ids_in(getattr(part, "__doc__", None)))


class Store:
    """A place for checkpoints, and savers over it."""

    def __init__(self, kind: str, folder: Path, url: str = "", schema: str = "") -> None:
        self.kind = kind
        self.path = folder / "runs.db"
        self.url = url
        self.schema = schema
        self._saver: Any = None

    @property
    def on_disk(self) -> bool:
        """Whether what is stored outlives the saver object."""
        return self.kind in {"sqlite", "jsonl", "postgres"}

    def saver(self, **options: Any) -> Any:
        """The saver over this place, made with `options` when first asked for."""
        if self._saver is None:
            self._saver = self._make(**options)
        return self._saver

    def again(self) -> Any:
        """A new saver object over the same place, where the kind has such; else the same one."""
        return self._make() if self.on_disk else self.saver()

    def _make(self, **options: Any) -> Any:
        if self.kind == "memory":
            return InMemorySaver(**options)
        if self.kind == "jsonl":
            return JsonlSaver(self.path.with_name("threads"), **options)
        if self.kind == "postgres":
            return PostgresSaver(self.url, schema=self.schema, **options)
        return SqliteSaver(self.path if self.on_disk else ":memory:", **options)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A place for checkpoints; the test runs once per kind."""
    with stored_in(request, request.param, tmp_path) as made:
        yield made


@contextmanager
def stored_in(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[Store]:
    """A place of a kind; on PostgreSQL a schema that is empty and handed on afterwards."""
    if kind != "postgres":
        yield Store(kind, folder)
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.borrow("saver") as schema:
        yield Store(kind, folder, postgres.url, schema)


@pytest.fixture
async def saver(store: Store) -> AsyncIterator[Any]:
    """An open saver; the test runs once per kind."""
    async with store.saver() as opened:
        yield opened
