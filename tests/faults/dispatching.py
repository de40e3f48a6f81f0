"""Worker processes over one schema of PostgreSQL: their nodes' calls, and their leases."""

import signal
import subprocess
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
import msgspec
import psycopg

from actorgraph import ActorSystem, StorageError, ThreadBusyError
from tests.support.dispatch_worker import GRAPH, WorkerOptions, steps, system_of
from tests.support.warm_processes import popen

T = TypeVar("T")
PATIENCE_S = 60.0
"""Seconds for anything that workers do in the small forms; the large ones pass more."""
READY_S = 30.0
"""Seconds for a worker to start."""
POLL_S = 0.02
AT_ONCE = 50
"""Runs that are accepted at once."""

in_thread = anyio.to_thread.run_sync


async def in_own_loop(work: Callable[[], Awaitable[T]], loop: str) -> T:
    """Call an async function in a loop of its own, as programs have one.

    A test's own loop, if it is trio's, is a guest of pytest's plugin, so that each wait of it goes
    through another thread: half as much CPU again as a program with a thousand readers needs.
    """
    return await in_thread(lambda: anyio.run(work, backend=loop))


@contextmanager
def within(limit_s: float, what: str) -> Generator[None]:
    """Fail with a message if a block takes longer."""
    with anyio.move_on_after(limit_s) as scope:
        yield
    assert not scope.cancelled_caught, f"after {limit_s:.0f} s there was still no {what}"


class Place(msgspec.Struct, frozen=True):
    """A schema of a PostgreSQL server, and the log of the workers' nodes."""

    server: Any
    schema: str
    log: Path
    loop: str


class Call(msgspec.Struct, frozen=True):
    """One call of the node.

    Attributes:
        owner: the lease under which it was made.
        pid: of the worker.
        name: of the run.
        step: how many steps the thread had before.
        at: seconds since 1970.
    """

    owner: str
    pid: int
    name: str
    step: int
    at: float


class Fleet:
    """The workers of a place; use it as `async with`, which kills those that are left."""

    def __init__(self, place: Place, options: WorkerOptions) -> None:
        self._place = place
        self._options = options
        self._started: list[subprocess.Popen[str]] = []
        self._read = 0
        self._calls: list[Call] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

    async def start(self, count: int = 1, **changes: Any) -> list[subprocess.Popen[str]]:
        """Start workers, and wait until they take runs.

        Args:
            changes: of the fleet's options.
        """
        options = msgspec.structs.replace(self._options, **changes)
        made = [self._spawn(options) for _ in range(count)]
        for process in made:
            line = await in_thread(first_line, process)
            assert line == "ready\n", f"a worker wrote {line!r} and not that it is ready"
        return made

    def _spawn(self, options: WorkerOptions) -> subprocess.Popen[str]:
        place = self._place
        module = ["-m", "tests.support.dispatch_worker"]
        where = [place.loop, place.server.url, place.schema, str(place.log)]
        text = msgspec.json.encode(options).decode()
        process = popen([*module, *where, text], stdout=subprocess.PIPE, text=True)
        self._started.append(process)
        return process

    def calls(self) -> list[Call]:
        """The calls of nodes so far, in their order."""
        if self._place.log.exists():
            with self._place.log.open() as file:
                file.seek(self._read)
                text = file.read()
            text = text[: text.rfind("\n") + 1]
            self._read += len(text)
            for o, pid, name, step, at in map(str.split, text.splitlines()):
                self._calls.append(Call(o, int(pid), name, int(step), float(at)))
        return self._calls

    def begun(self, start: str = "") -> set[str]:
        """The names of the runs that were begun, of those whose name starts so."""
        return {call.name for call in self.calls() if call.name.startswith(start)}

    async def until(self, is_so: Callable[[], object], limit_s: float = PATIENCE_S) -> None:
        """Wait until processes have done something."""
        with within(limit_s, "end of a wait for workers"):
            while not is_so():  # noqa: ASYNC110 - in other processes
                await anyio.sleep(POLL_S)


def first_line(process: "subprocess.Popen[str]", limit_s: float = READY_S) -> str:
    """Read the first line of a process's output; "" of one that has ended, or is killed for it."""
    assert process.stdout is not None
    limit = threading.Timer(limit_s, process.kill)
    limit.start()
    try:
        return process.stdout.readline()
    finally:
        limit.cancel()


@asynccontextmanager
async def accepting(place: Place, count: int = 1, **options: Any) -> AsyncGenerator[Any]:
    """Open systems that accept runs; with the first one come the tables and the `LeaseBook`."""
    async with AsyncExitStack() as stack:
        opened: list[ActorSystem] = []
        for _ in range(count):
            url, schema = place.server.url, place.schema
            system = system_of(url, schema, "accept", steps(), **options)
            opened.append(await stack.enter_async_context(system))
            if len(opened) == 1:
                await in_thread(LeaseBook(place).open)
        yield opened


async def accept(web: ActorSystem, name: str, count: int = 1, **options: Any) -> Any:
    """Start a run on the thread of its name; again when the store has failed in between."""
    given = {"name": name, "count": count, "done": []}
    options = {"stream_mode": (), **options}
    with within(PATIENCE_S, f"accepted run {name}"):
        while True:
            try:
                return await web.start(GRAPH, name, given, **options)
            except (StorageError, ThreadBusyError):
                # It may be stored: then it must not be started twice.
                await anyio.sleep(0.1)
                found = await patiently(partial(web.runs, thread_id=name))
                if found:
                    return found[0]
    raise AssertionError


async def accept_all(
    webs: list[ActorSystem], names: Iterable[str], count: int = 1, **options: Any
) -> dict[str, Any]:
    """Start a run for each name, by the systems in turn, `AT_ONCE` at a time; name -> run."""
    limiter, started = anyio.Semaphore(AT_ONCE), dict[str, Any]()

    async def one(number: int, name: str) -> None:
        async with limiter:
            started[name] = await accept(webs[number % len(webs)], name, count, **options)

    async with anyio.create_task_group() as group:
        for number, name in enumerate(names):
            group.start_soon(one, number, name)
    return started


async def patiently(work: Callable[[], Awaitable[Any]], limit_s: float = PATIENCE_S) -> Any:
    """Await something, again while the store fails."""
    with within(limit_s, f"answer to {work}"):
        while True:
            try:
                return await work()
            except StorageError:
                await anyio.sleep(0.1)
    raise AssertionError


async def ended(runs: Iterable[Any], limit_s: float = PATIENCE_S) -> list[str]:
    """Wait for runs, for all of them no longer than the limit; return their statuses."""
    with within(limit_s, "end of all runs"):
        return [await patiently(run.wait, limit_s) for run in runs]
    raise AssertionError


class LeaseBook:
    """Notes each renewal of a lease, by a trigger: which system had a lease, and when."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def open(self) -> None:
        """Create the trigger; the tables are there."""
        schema = self._place.schema
        with self._place.server.connect(schema) as db:
            db.execute(_BOOK.replace("SCHEMA", schema))

    def owners(self) -> set[str]:
        """The owners that had a lease: more than systems were opened if one has lost its own."""
        return set(self._leases())

    def late(self, calls: Iterable[Call]) -> list[Call]:
        """The calls that were begun when their owner's lease was over."""
        leases = self._leases()
        return [call for call in calls if not _holds(leases.get(call.owner, []), call.at)]

    def _leases(self) -> dict[str, list[tuple[float, float]]]:
        """Owner -> (moment of the renewal, end of the lease), by time."""
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        with self._place.server.connect(self._place.schema) as db:
            query = "SELECT encode(owner, 'hex'), moment, until FROM lease_book ORDER BY moment"
            for owner, moment, until in db.execute(query).fetchall():
                found[owner].append((moment, until))
        return found


def _holds(leases: list[tuple[float, float]], at: float) -> bool:
    newest = bisect_right(leases, (at, float("inf"))) - 1
    return newest >= 0 and leases[newest][1] > at


_BOOK: Any = """
CREATE TABLE IF NOT EXISTS SCHEMA.lease_book (owner bytea, moment float8, until float8);
CREATE OR REPLACE FUNCTION SCHEMA.note_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO SCHEMA.lease_book VALUES (OLD.owner, extract(epoch FROM clock_timestamp()), 0);
    ELSE
        INSERT INTO SCHEMA.lease_book VALUES (NEW.owner, extract(epoch FROM clock_timestamp()),
            extract(epoch FROM NEW.lease_until));
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER note_lease AFTER INSERT OR UPDATE OR DELETE ON SCHEMA.owners
    FOR EACH ROW EXECUTE FUNCTION SCHEMA.note_lease();
"""


def stale(calls: Iterable[Call]) -> int:
    """Count calls of owners that another owner had followed on the same run."""
    left: dict[str, set[str]] = defaultdict(set)
    current: dict[str, str] = {}
    count = 0
    for call in calls:
        if call.owner in left[call.name]:
            count += 1
        elif call.owner != current.get(call.name, call.owner):
            left[call.name].add(current[call.name])
        current[call.name] = call.owner
    return count


def restart(place: Place) -> None:
    """Stop PostgreSQL, and start it again."""
    place.server.stop()
    place.server.start()


def transactions(place: Place) -> int:
    """The transactions that the server has committed so far in the tests' database."""
    with psycopg.connect(place.server.url, autocommit=True) as db:
        # Each session reports its own at most once per second.
        time.sleep(1.2)
        query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        (count,) = db.execute(query).fetchone() or (0,)
    return count
