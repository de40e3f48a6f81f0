"""Where dispatchers are tested: an engine each, over a store of runs each."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager

import pytest

from actorgraph import InMemorySaver, PostgresSaver
from actorgraph.dispatch import InMemoryDispatcher, NATSDispatcher, PGQueuerDispatcher
from actorgraph.testing import DispatchPlace

AGAIN_S = 2.0
KINDS = ("memory", "pgqueuer", "nats")


@asynccontextmanager
async def memory_place():
    """Hints and runs in memory."""
    dispatcher = InMemoryDispatcher()
    async with InMemorySaver() as saver:
        yield DispatchPlace(lambda: dispatcher, lambda: saver, AGAIN_S / 2)


def pgqueuer_place(url: str, schema: str) -> DispatchPlace:
    """Hints and runs in one schema of a PostgreSQL server."""
    return DispatchPlace(
        lambda: PGQueuerDispatcher(again_s=AGAIN_S, poll_s=0.5),
        lambda: PostgresSaver(url, schema=schema),
        AGAIN_S,
    )


def nats_place(address: str, stream: str, url: str, schema: str) -> DispatchPlace:
    """Hints on a NATS server, runs in a schema of a PostgreSQL server."""
    return DispatchPlace(
        lambda: NATSDispatcher(address, stream=stream, again_s=AGAIN_S),
        lambda: PostgresSaver(url, schema=schema),
        AGAIN_S,
    )


@pytest.fixture(scope="session")
def nats():
    """
    The address of a NATS server.
    """
    with nats_server() as address:
        yield address


@pytest.fixture(params=KINDS)
async def place(request, postgres, schema):
    """
    Each adapter with an engine and a store that are empty.
    """
    if request.param == "memory":
        async with memory_place() as made:
            yield made
    elif request.param == "pgqueuer":
        yield pgqueuer_place(postgres.url, schema)
    elif (address := request.getfixturevalue("nats")) is None:
        pytest.skip("nats-server is not installed")
    else:
        yield nats_place(address, f"s{os.urandom(6).hex()}", postgres.url, schema)


@contextmanager
def nats_server():
    """A NATS server with JetStream on a free port; yields its address, None without a binary."""
    binary = shutil.which("nats-server") or shutil.which("nats-server", path=_scripts())
    if binary is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        process = subprocess.Popen(
            [binary, "-js", "-sd", folder, "-a", "127.0.0.1", "-p", str(port)],
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for(port)
            yield f"nats://127.0.0.1:{port}"
        finally:
            process.kill()  # nothing of its folder is read again
            process.wait()


def _scripts() -> str:
    import sysconfig

    return sysconfig.get_path("scripts")


def _wait_for(port: int) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < end, "nats-server doesn't answer"
            time.sleep(0.02)
        else:
            return
