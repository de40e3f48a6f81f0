"""PgBouncer before a server of a test: `pooled(server, "transaction")` starts one and stops it.

It is a program of its own (`apt-get install pgbouncer`); where it isn't installed, the test is
skipped. It refuses to run as root, so it runs as `nobody` then.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres_clusters import PORT, Cluster, wait_for

MODES = ("session", "transaction", "statement")
CONFIG = """
[databases]
* = host={server} port={port} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {port}
auth_type = any
pool_mode = {mode}
default_pool_size = 20
logfile = {folder}/log
pidfile = {folder}/pid
"""


class Pooler:
    """One PgBouncer, running.

    Args:
        server: the one that it leads to.
        mode: `pool_mode`.
    """

    def __init__(self, program: str, server: Cluster, mode: str) -> None:
        self._program = program
        self._folder = server.socket.parent / f"pooler-{mode}"
        self._folder.mkdir()
        text = CONFIG.format(server=server.socket.parent, port=PORT, folder=self._folder, mode=mode)
        (self._folder / "ini").write_text(text)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"postgresql:///postgres?user=postgres&host={self._folder}&port={PORT}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._process = subprocess.Popen(
            [self._program, "-q", str(self._folder / "ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._as,
        )
        wait_for(self._answers)

    def kill(self) -> None:
        """End it by SIGKILL; its clients and the server lose their connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
        for left in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock", "pid"):
            (self._folder / left).unlink(missing_ok=True)

    def _answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.Error), psycopg.connect(self.url):
            return True
        return False


@contextmanager
def pooled(server: Cluster, mode: str) -> Iterator[Pooler]:
    """A pooler before a server, in a mode of `MODES`."""
    places = [Path(each, "pgbouncer") for each in ("/usr/sbin", "/usr/local/sbin")]
    found = [str(each) for each in places if each.exists()]
    program = shutil.which("pgbouncer") or next(iter(found), None)
    if program is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    pooler = Pooler(program, server, mode)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.kill()
