"""Where dispatchers are tested: an engine each, over a store of runs each."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
import zlib
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import anyio
import anyio.to_thread
import pytest

from actorgraph import InMemorySaver, PostgresSaver
from actorgraph.dispatch import InMemoryDispatcher, NATSDispatcher, PGQueuerDispatcher
from actorgraph.testing import DispatchPlace
from tests.support.tcp_proxy import proxied

AGAIN_S = 2.0
GARBAGE = (
    b"",
    b"garbage",
    b"[]",
    b"null",
    b"{",
    b"\xff\xfe",
    b'["QUJD",0,0]',
    b'["AAAAAAAAAAAAAAAAAAAAAA==","x",0]',
    b"[" * 100_000,
)
"""Bodies of messages that are neither hints nor news."""
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


@asynccontextmanager
async def pgqueuer_engine(postgres, schema):
    """A place whose PGQueuer can go away, and gets jobs and notifications of others."""

    async def garble(queue: str) -> None:
        with postgres.connect(schema) as db:
            for payload, headers, created in (
                (None, None, "2026-01-01"),
                (b"garbage", None, "2026-01-01"),
                (os.urandom(16), "[1]", "2026-01-01"),
                (os.urandom(16), None, "infinity"),
                (b"", "7", "2026-01-01"),
            ):
                db.execute(
                    "INSERT INTO pgqueuer (priority, status, entrypoint, payload, headers, created)"
                    " VALUES (7, 'queued', %s, %s, %s, %s)",
                    (queue, payload, headers, created),
                )
            mark = f"{zlib.crc32(schema.encode()):08x}"
            for text in ("", "s", "sA", "x", "s!!!!", "sQUJD", "\u20ac", "c" + "A" * 400):
                db.execute("SELECT pg_notify(%s, %s)", (f"actorgraph_news_{mark}", text))
                db.execute("SELECT pg_notify(%s, %s)", (f"actorgraph_hints_{mark}", text))

    with proxied(postgres.socket) as proxy:
        yield DispatchPlace(
            lambda: PGQueuerDispatcher(proxy.url, again_s=AGAIN_S, poll_s=0.5),
            lambda: PostgresSaver(postgres.url, schema=schema),
            AGAIN_S,
            garble=garble,
            away=partial(_gone, proxy),
        )


@asynccontextmanager
async def nats_engine(address: str, stream: str):
    """A place whose NATS can go away, and gets messages of others."""
    from nats import connect

    async def write(queue: str) -> None:
        client = await connect(address)
        for number, body in enumerate(GARBAGE):
            await client.publish(f"{stream}.hints.{queue.encode().hex()}.x{number}", body)
            await client.publish(f"{stream}.news", body)
        await client.flush()
        await client.close()

    async def garble(queue: str) -> None:
        await anyio.to_thread.run_sync(asyncio.run, write(queue))

    with proxied(int(address.rpartition(":")[2])) as proxy:
        async with InMemorySaver() as saver:
            yield DispatchPlace(
                lambda: NATSDispatcher(
                    f"nats://127.0.0.1:{proxy.port}", stream=stream, again_s=AGAIN_S
                ),
                lambda: saver,
                AGAIN_S,
                garble=garble,
                away=partial(_gone, proxy),
            )


@asynccontextmanager
async def _gone(proxy):
    proxy.leave()
    try:
        yield
    finally:
        proxy.resume()


@pytest.fixture(params=["pgqueuer", "nats"])
async def engine(request, postgres, schema):
    """
    Each adapter with an engine that can go away, and to which others can write.
    """
    if request.param == "pgqueuer":
        async with pgqueuer_engine(postgres, schema) as made:
            yield made
    elif (address := request.getfixturevalue("nats")) is None:
        pytest.skip("nats-server is not installed")
    else:
        async with nats_engine(address, f"s{os.urandom(6).hex()}") as made:
            yield made


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
