"""Servers of the savers: Redis, AWS's DynamoDB and S3, MariaDB, PostgreSQL, on this machine alone.

    python -m tests.ecosystem.savers.servers FOLDER

Prints their addresses as JSON when they answer, and ends with its standard input.
"""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from fakeredis import TcpFakeServer
from moto.server import ThreadedMotoServer

from tests.ecosystem.savers.places import AWS, MARIADB, REDIS

SECONDS_MAX = 60.0


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]


def redis(left: ExitStack, folder: Path) -> str:
    """Start Redis: the real one if it is installed, else one in this process."""
    port = free_port()
    if shutil.which("redis-server"):
        words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        started(left, [*words, "--dir", str(folder)], folder / "redis.log")
        wait_for(port)
    else:
        server = TcpFakeServer(("127.0.0.1", port), server_type="redis")
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"redis://127.0.0.1:{port}/0"


def aws(left: ExitStack) -> str:
    """Start moto in this process."""
    port = free_port()
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    left.callback(server.stop)
    return f"http://127.0.0.1:{port}"


def mariadb(left: ExitStack, folder: Path) -> str | None:
    """Start MariaDB with an empty database; None if it isn't installed."""
    if not shutil.which("mariadbd"):
        return None
    data, place = folder / "mariadb", folder / "m.sock"
    user = ["--user=root"]
    # Not under /root, and short: a socket's path has 107 bytes at most.
    words = ["mariadb-install-db", f"--datadir={data}", "--auth-root-authentication-method=normal"]
    subprocess.run([*words, *user], check=True, capture_output=True)
    port = free_port()
    server = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={place}", *user]
    limits = ["--innodb-buffer-pool-size=16M", "--bind-address=127.0.0.1", f"--port={port}"]
    started(left, [*server, *limits], folder / "mariadb.log")
    wait_for(port)
    return f"mysql://root@127.0.0.1:{port}/"


def started(left: ExitStack, words: list[str], log: Path) -> None:
    """Start a process that ends with this one's servers."""
    with log.open("w") as written:
        process = subprocess.Popen(words, stdout=written, stderr=written)
    left.callback(process.wait)
    left.callback(process.terminate)


def wait_for(port: int) -> None:
    """Wait until a server listens.

    Raises:
        TimeoutError: it doesn't.
    """
    limit = time.monotonic() + SECONDS_MAX
    while time.monotonic() < limit:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens at {port} after {SECONDS_MAX:.0f} s")


def main(folder: Path) -> None:
    """Start the servers, print their addresses, and wait."""
    with ExitStack() as left:
        addresses = {REDIS: redis(left, folder), AWS: aws(left), MARIADB: mariadb(left, folder)}
        keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        region = {"AWS_DEFAULT_REGION": "us-east-1"} | dict.fromkeys(keys, "testing")
        print(json.dumps({k: v for k, v in addresses.items() if v} | region), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
