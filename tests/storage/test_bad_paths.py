"""Paths that can't be used: each is refused by an error of the library's own that names it."""

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from actorgraph import START, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.api.savers.wrappers import audit
from actorgraph.api.savers.wrappers.audit import AuditLog
from actorgraph.caches import SqliteCache
from actorgraph.errors import (
    ActorGraphError,
    AuditError,
    InvalidConfigError,
    StorageError,
    StorageFullError,
)
from actorgraph.storage.file_errors import checked_path, file_error
from actorgraph.stores import SqliteStore

THREAD = {"configurable": {"thread_id": "t"}}
PLACES = {
    "a long name": lambda folder: folder / ("n" * 300),
    "a null character": lambda folder: f"{folder}/a\0b",
    "below a file": lambda folder: folder / "file" / "x",
    "a loop of links": lambda folder: folder / "loop" / "x",
}


def graph(saver):
    return StateGraph(dict).add_node("n", dict).add_edge(START, "n").compile(saver)


def ask_store(store):
    store.put(("a",), "k", {})


def ask_saver(saver):
    graph(saver).invoke({}, THREAD)


def ask_cache(cache):
    cache.get([(("a",), "k")])


def ask_log(log):
    log.append("me", "read", "t", "")
    log.close()


BLOCKING = {
    SqliteSaver: ask_saver,
    JsonlSaver: ask_saver,
    SqliteStore: ask_store,
    SqliteCache: ask_cache,
    AuditLog: ask_log,
}


async def aask_saver(path, kind):
    async with kind(path) as saver:
        await graph(saver).ainvoke({}, THREAD)


async def aask_store(path, kind):
    async with kind(path) as store:
        await store.aput(("a",), "k", {})


WAYS = {SqliteSaver: aask_saver, JsonlSaver: aask_saver, SqliteStore: aask_store}


@pytest.fixture
def bad_path(request, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    return PLACES[request.param](tmp_path)


def shown(path):
    return repr(str(path))[1:-1]


@pytest.mark.parametrize("bad_path", PLACES, indirect=True)
@pytest.mark.parametrize("kind", BLOCKING)
def test_a_bad_path_is_named_in_a_blocking_call(kind, bad_path):
    """
    A blocking call over a path that can't be used raises the library's own error with the path.
    """
    with pytest.raises(ActorGraphError) as raised:
        BLOCKING[kind](kind(bad_path))

    assert shown(bad_path) in str(raised.value)


@pytest.mark.anyio
@pytest.mark.parametrize("bad_path", PLACES, indirect=True)
@pytest.mark.parametrize("kind", WAYS)
async def test_a_bad_path_is_named_when_awaited(kind, bad_path):
    """
    Opening a path that can't be used on an event loop raises the library's own error with it.
    """
    with pytest.raises(ActorGraphError) as raised:
        await WAYS[kind](bad_path, kind)

    assert shown(bad_path) in str(raised.value)


@pytest.mark.parametrize("bad_path", PLACES, indirect=True)
@pytest.mark.parametrize("kind", [SqliteSaver, JsonlSaver])
def test_a_backup_to_a_bad_path_is_refused(kind, bad_path, tmp_path):
    """
    A backup to a path that can't be used raises the library's own error with the path.
    """
    with kind(tmp_path / "source") as saver, pytest.raises(ActorGraphError) as raised:
        saver.backup(bad_path)

    assert shown(bad_path) in str(raised.value)


@pytest.mark.parametrize("bad_path", PLACES, indirect=True)
def test_a_bad_path_is_refused_for_reading(bad_path):
    """
    A saver that only reads refuses a path that can't be used, by name.
    """
    with pytest.raises(ActorGraphError) as raised:
        ask_saver(SqliteSaver(bad_path, read_only=True))

    assert shown(bad_path) in str(raised.value)


@pytest.mark.parametrize("given", ["", 5, None])
@pytest.mark.parametrize("kind", BLOCKING)
def test_an_object_that_names_no_path_is_refused_at_once(kind, given):
    """
    An empty path and an object of another type are refused by the constructor.
    """
    with pytest.raises(InvalidConfigError):
        kind(given)


@pytest.mark.parametrize("kind", BLOCKING)
def test_a_path_of_bytes_is_used(kind, tmp_path):
    """
    A path of bytes names the same file as its text.
    """
    BLOCKING[kind](kind(os.fsencode(tmp_path / "x")))

    assert (tmp_path / "x").exists()


def test_a_relative_folder_is_opened_where_the_process_is(tmp_path, monkeypatch):
    """
    A saver that was made in a folder that is gone by then says so when it is opened.
    """
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(StorageError, match="runs"):
        anyio.run(aask_saver, "runs", JsonlSaver)


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StorageFullError, "free some space"),
        (errno.EDQUOT, StorageFullError, "free some space"),
        (errno.EMFILE, StorageError, "limit of open files"),
        (errno.EACCES, StorageError, "permissions"),
        (errno.ENAMETOOLONG, StorageError, "shorter name"),
        (errno.EIO, StorageError, "the default"),
    ],
)
def test_the_advice_fits_the_error(number, kind, advice):
    """
    A full disk, a limit, permissions and long names have advice of their own.
    """
    error = file_error(OSError(number, os.strerror(number)), "can't write 'x'", "the default")

    assert type(error) is kind
    assert advice in error.do
    assert error.what == f"can't write 'x': {os.strerror(number)}"


def test_a_path_object_of_bytes_becomes_text():
    """
    An object whose path is bytes is decoded as the file system's names are.
    """

    class Named:
        def __fspath__(self):
            return b"runs.db"

    assert checked_path(Named(), "SqliteSaver") == "runs.db"


def test_a_log_that_cannot_be_trimmed_stays(tmp_path, monkeypatch):
    """
    A trim without room raises the log's own error, and every entry is still there.
    """
    log = AuditLog(tmp_path / "log")
    ask_log(log)
    before = (tmp_path / "log").read_bytes()
    (tmp_path / "log.part").mkdir()  # so that the new file can't be written

    with pytest.raises(AuditError, match=r"log' can't be trimmed"):
        log.trim(datetime.max.replace(tzinfo=UTC))

    assert (tmp_path / "log").read_bytes() == before
    ask_log(log)  # goes on
    assert audit.verify_audit_log(Path(tmp_path / "log")).number == 2
