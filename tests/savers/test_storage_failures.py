"""Trouble with the store: poison in a batch, a dead writer, locks, clocks, a full disk."""

import json
import sqlite3
import subprocess
import time
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio
import pytest

from actorgraph import InMemorySaver, LimitedSaver, SqliteSaver
from actorgraph.errors import CheckpointSizeError, StorageBusyError, StorageError
from actorgraph.runtime.clock import IDS
from actorgraph.storage.sqlite.connections import HopConnection
from actorgraph.testing import GatedSaver
from tests.savers.full_disk import SIZES
from tests.savers.test_saver_wrappers import noise
from tests.support.gates import PATIENCE_S, Box, patient_group
from tests.support.graphs import ab, at, history
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen, run

pytestmark = pytest.mark.every_saver

TOGETHER = 64
BYTES_MAX = 50_000


class SmallRows(HopConnection):
    """A connection that refuses values above 50,000 bytes, as SQLite does above a billion."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, BYTES_MAX)


class SmallSaver(SqliteSaver):
    connection_class = SmallRows


async def run_together(saver, inputs: list, waiting: int) -> list[Box]:
    """Runs whose first saves wait for one commit, and then share the next.

    Args:
        waiting: how many of them get as far as the saver.
    """
    graph = ab(saver)
    boxes = [Box() for _ in inputs]
    async with patient_group(saver) as group:
        group.start_soon(Box().fill, graph.ainvoke, {}, at("first"))
        await saver.waiting()
        for n, (box, given) in enumerate(zip(boxes, inputs, strict=True)):
            group.start_soon(box.fill, graph.ainvoke, given, at(f"t{n}"))
        while saver.statistics().waiting < waiting:
            await anyio.lowlevel.checkpoint()
        saver.release(None)
    return boxes


SMALL = """
ALTER TABLE blobs ADD CONSTRAINT small CHECK (octet_length(payload) <= 50000);
ALTER TABLE ranges ADD CONSTRAINT small CHECK (octet_length(payload) <= 50000);
ALTER TABLE writes ADD CONSTRAINT small CHECK (octet_length(payload) <= 50000);
"""
LARGE_AGAIN = """
ALTER TABLE blobs DROP CONSTRAINT small; ALTER TABLE ranges DROP CONSTRAINT small;
ALTER TABLE writes DROP CONSTRAINT small;
"""


@asynccontextmanager
async def refusing(store, request):
    """A saver that takes no row above 50,000 bytes: the database refuses it where there is one."""
    if store.kind == "sqlite":
        yield SmallSaver(store.path, synchronous="OFF")
    elif store.kind == "postgres":
        await store.saver().setup()
        with request.getfixturevalue("postgres").connect(store.schema) as db:
            db.execute(SMALL)
            try:
                yield store.saver()
            finally:
                db.execute(LARGE_AGAIN)
    else:
        yield LimitedSaver(store.saver(), max_bytes=BYTES_MAX)


class TestPoison:
    @pytest.mark.promise("T20", "B2")
    @pytest.mark.every_loop("sqlite-memory")
    async def test_two_messages_among_64(self, store, request, capsys):
        """
        Of 64 runs at once only those fail whose message is too large for the store, or can't be
        stored at all; the other 62 are stored by one transaction, each once, and nothing says what
        the refused value was.
        """
        poison = {31: {"bar": [noise(2 * BYTES_MAX)]}, 32: {"foo": object()}}
        inputs = [poison.get(n, {"bar": [str(n)]}) for n in range(TOGETHER)]
        async with refusing(store, request) as inner, GatedSaver(inner) as saver:
            boxes = await run_together(saver, inputs, TOGETHER - 1)
            rows = [await saver.acount(f"t{n}") for n in range(TOGETHER)]
            graph = ab(saver)
            ends = [(await graph.aget_state(at(f"t{n}"))).values for n in range(TOGETHER)]

        assert max(len(batch) for batch in saver.batches) >= TOGETHER - 1
        assert [n for n, box in enumerate(boxes) if box.error is not None] == [31, 32]
        assert isinstance(boxes[31].error, StorageError | CheckpointSizeError)
        assert isinstance(boxes[32].error, TypeError)
        assert rows == [0 if n in poison else 4 for n in range(TOGETHER)]
        wanted = [None if n in poison else [str(n), "a", "b"] for n in range(TOGETHER)]
        assert [end.get("bar") for end in ends] == wanted
        assert "row contains" not in str(boxes[31].error) + capsys.readouterr().err


class Dying(InMemorySaver):
    """A saver whose commits fail in an unforeseen way."""

    async def commit(self, batch):
        raise RuntimeError("a bug in the writer")


class TestADeadWriter:
    @pytest.mark.promise("T21", "B2")
    async def test_an_unexpected_error_reaches_every_waiter(self):
        """
        When the writer fails with an error of no kind, all who wait get it at once, and none
        hangs.
        """
        async with GatedSaver(Dying()) as saver:
            began = time.monotonic()
            boxes = await run_together(saver, [{}] * 20, 20)
            took = time.monotonic() - began

        assert all("a bug in the writer" in str(box.error) for box in boxes)
        assert took < 1

    @pytest.mark.promise("T21")
    async def test_a_connection_that_is_gone_reaches_every_waiter(self, tmp_path):
        """
        When the writer's connection is gone, every waiter gets an error and nothing hangs; a new
        saver goes on.
        """
        path = tmp_path / "runs.db"
        inner = SqliteSaver(path)
        async with GatedSaver(inner) as saver:
            with suppress(sqlite3.ProgrammingError):  # as if it had died
                await inner._writer.run(sqlite3.Connection.close)  # noqa: SLF001
            began = time.monotonic()
            boxes = await run_together(saver, [{}] * 20, 20)
            took = time.monotonic() - began
        async with SqliteSaver(path) as saver:
            result = await ab(saver).ainvoke({}, at("t0"))

        assert all(isinstance(box.error, Exception) for box in boxes)
        assert took < 1
        assert result["bar"] == ["a", "b"]


class Hands:
    """A clock that shows what it is set to."""

    def __init__(self, now: int) -> None:
        self.now = now

    def ticks(self) -> int:
        return self.now


HOUR = 3_600 * 10**7
JUMPS = {"an hour back": -HOUR, "ten years on": 10 * 365 * 24 * HOUR, "frozen": 0}


class TestClocks:
    @pytest.mark.promise("T16", "C11", "D13", "S024", "S029", "S226")
    @pytest.mark.every_loop
    @pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
    async def test_order_is_the_stores(self, saver, monkeypatch, jump):
        """
        With any change of the clock between and during runs, the newest checkpoint is the one
        stored last, and ids and times rise.
        """
        hands = Hands(IDS._clock.ticks())  # noqa: SLF001 - the process's own
        monkeypatch.setattr(IDS, "_last", IDS._last)  # noqa: SLF001
        monkeypatch.setattr(IDS, "_clock", hands)
        graph = ab(saver)
        for n in range(4):
            await graph.ainvoke({"foo": str(n)}, at())
            hands.now += jump if n % 2 == 0 else -jump
        found = await history(graph, at())
        steps = [s.metadata["step"] for s in found]
        ids = [s.config["configurable"]["checkpoint_id"] for s in found]
        times = [s.created_at for s in found]

        assert steps == [*range(14, -2, -1)]
        assert ids == sorted(ids, reverse=True)
        assert times == sorted(times, reverse=True)
        assert found[0].values["bar"] == ["a", "b"] * 4


@contextmanager
def locked(path, seconds: float | None = None):
    """Another process that holds the database's write lock, for so long or until the end."""
    program = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with popen(["-c", program, path], **pipes) as process:
        assert process.stdout.readline() == b"locked\n"
        try:
            yield process.stdin
        finally:
            process.kill()


class TestLocks:
    @pytest.mark.promise("T8")
    async def test_beyond_the_timeout(self, tmp_path):
        """
        While another process holds the lock for longer than the timeout, a run ends with
        StorageBusyError within a second after it, no node having begun.
        """
        log: list[str] = []
        async with SqliteSaver(tmp_path / "runs.db", busy_timeout_s=0.3) as saver:
            with locked(tmp_path / "runs.db"):
                began = time.monotonic()
                with pytest.raises(StorageBusyError):
                    await ab(saver, log).ainvoke({}, at())
                took = time.monotonic() - began
            assert (await ab(saver, log).ainvoke({}, at()))["bar"] == ["a", "b"]

        assert took < 1.3
        assert log == ["a", "b"]

    @pytest.mark.promise("T8")
    async def test_within_the_timeout(self, tmp_path):
        """
        A lock that another process lets go in time delays a run and fails nothing.
        """
        async with SqliteSaver(tmp_path / "runs.db", busy_timeout_s=PATIENCE_S) as saver:
            with locked(tmp_path / "runs.db") as until:
                box = Box()
                async with anyio.create_task_group() as group:
                    group.start_soon(box.fill, ab(saver).ainvoke, {}, at())
                    await anyio.wait_all_tasks_blocked()
                    until.close()

        assert box.value["bar"] == ["a", "b"]


@pytest.mark.promise("T7", "B2", "B3")
@pytest.mark.parametrize(
    ("kind", "size"),
    [
        pytest.param(kind, size, marks=[pytest.mark.long] * (number % 2))
        for kind, sizes in SIZES.items()
        for number, size in enumerate(sizes[::10])
    ],
)
def test_a_full_disk(tmp_path, kind, size):
    """
    When no file may grow any more the run ends with an error, no node starts after that, and the
    thread goes on from there once there is space.
    """
    words = ["-m", "tests.savers.full_disk", kind, tmp_path / "store", size]
    done = run(words, cwd=ROOT, check=True)
    found = json.loads(done.stdout.splitlines()[-1])

    assert found.pop("error") in {"StorageFullError", "SaverBrokenError"}
    assert found == {
        "started after": 0,
        "log": [f"n{n}" for n in range(30)],
        "integrity": "ok",
    }
