"""PGQueuerDispatcher whose server falls silent, or breaks its connections."""

import asyncio
import os
import zlib
from contextlib import asynccontextmanager

import anyio
import pytest

from actorgraph import PostgresSaver, StorageError
from actorgraph.dispatch import PGQueuerDispatcher
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.values.dispatch import Hint, News
from tests.support.gates import PATIENCE_S
from tests.support.tcp_proxy import proxied


@asynccontextmanager
async def linked(postgres, schema, heard=lambda _: None):
    """A link over a proxy, and the proxy."""
    async with PostgresSaver(postgres.url, schema=schema) as saver:
        with proxied(postgres.socket) as proxy:
            dispatcher = PGQueuerDispatcher(proxy.url, again_s=0.5, poll_s=0.05)
            link = await dispatcher.open(saver, heard)
            try:
                yield link, proxy
            finally:
                with anyio.fail_after(PATIENCE_S, shield=True):
                    await link.close()


def one() -> list[Hint]:
    """A hint."""
    return [Hint(os.urandom(16), "g")]


async def test_a_silent_server_holds_up_no_call(postgres, schema, monkeypatch):
    """
    Calls without an answer end with an error, and closing ends too.
    """
    async with linked(postgres, schema) as (link, proxy):
        monkeypatch.setattr("actorgraph.dispatch.pgqueuer.ANSWER_S", 0.1)
        proxy.stall(refuses=True)
        with anyio.fail_after(PATIENCE_S), pytest.raises(StorageError, match="connection failed"):
            await link.announce(one())
        with anyio.fail_after(PATIENCE_S), pytest.raises(StorageError, match="connection failed"):
            await link.take(["g"], 1)


async def test_calls_at_once_make_one_connection(postgres, schema, monkeypatch):
    """
    Calls that find their connection broken at the same time make one new one.
    """
    monkeypatch.setattr("actorgraph.dispatch.pgqueuer.RECONNECT_S", 600.0)
    async with linked(postgres, schema) as (link, proxy):
        await link.announce(one())
        proxy.reset()
        with pytest.raises(StorageError):
            await link.announce(one())
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(link.announce, one())
        assert len(proxy._pairs) == 1  # noqa: SLF001 - the connections since the reset


@pytest.mark.parametrize("style", ["SQL, DMY", "German"])
async def test_every_style_of_dates(postgres, schema, monkeypatch, style):
    """
    Hints come back in whatever style the environment has dates written.
    """
    monkeypatch.setenv("PGDATESTYLE", style)
    async with linked(postgres, schema) as (link, _):
        await link.announce(hints := one())
        with anyio.fail_after(PATIENCE_S):
            found = await link.take(["g"], 1)
        assert [hint.run for hint in found] == [hint.run for hint in hints]


async def test_a_session_that_cannot_write_is_replaced(postgres, schema):
    """
    A call over a session without writes fails, and the next one has another session.
    """
    async with linked(postgres, schema) as (link, proxy):
        with postgres.connect() as db:
            db.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
            try:
                proxy.reset()
                for _ in range(2):  # the lost connection, then the one that can't write
                    with pytest.raises(StorageError):
                        await link.announce(one())
            finally:
                db.execute("SET default_transaction_read_only = off")
                db.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
        await link.announce(hints := one())
        with anyio.fail_after(PATIENCE_S):
            found = await link.take(["g"], 1)

        assert [hint.run for hint in found] == [hint.run for hint in hints]


async def heard_again(link, news):
    """Publish a run's news until they come."""
    run = os.urandom(16)
    with anyio.fail_after(PATIENCE_S):
        while True:
            await link.publish(News((run,)))
            with anyio.move_on_after(0.1):
                while run not in (await news.get()).stored:
                    pass
                return


async def test_a_listening_session_that_is_ended_is_made_anew(postgres, schema, monkeypatch):
    """
    News come again after an operator has ended the session that listens.
    """
    monkeypatch.setattr("actorgraph.dispatch.pgqueuer.RECONNECT_S", 0.01)
    news = Mailbox()
    async with linked(postgres, schema, news.put) as (link, _):
        with postgres.connect() as db:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s"
            mark = f"LISTEN %actorgraph_hints_{zlib.crc32(schema.encode()):08x}%"
            ended = db.execute(end, (mark,))
            assert len(ended.fetchall()) == 1
        await heard_again(link, news)


async def test_a_session_that_brings_nothing_is_made_anew(postgres, schema, monkeypatch):
    """
    A connection that is open and brings no notification is found out, as behind some poolers.
    """
    monkeypatch.setattr("actorgraph.dispatch.pgqueuer.RECONNECT_S", 0.01)
    monkeypatch.setattr("actorgraph.dispatch.pgqueuer.HEAR_S", 0.1)
    news = Mailbox()
    async with linked(postgres, schema, news.put) as (link, _):
        link._channel += "_2"  # noqa: SLF001 - one to which the session doesn't listen
        await heard_again(link, news)


async def test_a_call_that_comes_while_it_closes_leaves_no_connection(postgres, schema):
    """
    What is on its way when the link disconnects for the last time connects no more.
    """
    async with linked(postgres, schema) as (link, _):
        await link._thread.call(link._leave)  # noqa: SLF001 - the last step of closing
        with pytest.raises(StorageError):
            await link.announce(one())
        assert link._used is None  # noqa: SLF001


async def test_a_close_that_is_cut_off_leaves_no_connection(postgres, schema, monkeypatch):
    """
    The link disconnects also if its last step is cancelled while it gives hints back.
    """
    began = Mailbox()

    async def hangs(_):
        began.put(None)
        await asyncio.get_running_loop().create_future()

    async with linked(postgres, schema) as (link, _):
        used = link._used  # noqa: SLF001
        link._parcel.put(one())  # noqa: SLF001
        with monkeypatch.context() as patched:
            patched.setattr(link, "_requeue", hangs)
            async with anyio.create_task_group() as group:
                group.start_soon(link._thread.call, link._leave)  # noqa: SLF001
                await began.get()
                group.cancel_scope.cancel()
            with anyio.fail_after(PATIENCE_S):
                while not used.closed:  # noqa: ASYNC110 - its thread does it
                    await anyio.sleep(0.01)
        assert link._used is None  # noqa: SLF001
