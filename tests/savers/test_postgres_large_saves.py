"""PostgreSQL and large values: time grows with their bytes, and one that fails harms no other."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.to_thread
import pytest

from actorgraph import Codec, PostgresSaver
from actorgraph.errors import StorageError
from actorgraph.savers.postgres import engine
from actorgraph.storage.postgres.translate import Attempts, ErrorKind
from actorgraph.stores import PostgresStore
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, chain
from tests.support.tcp_proxy import proxied

LIMITS = {"busy_timeout_s": 0.2, "answer_timeout_s": 0.25, "reconnect_timeout_s": 0.2}
PLAIN = Codec()
"""Compresses nothing."""
LARGE = {"foo": "x" * 1_500_000}
SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(TG_ARGV[0]::float);
    RETURN NULL;
END $$;
"""
SLOW_BLOBS = """
CREATE TRIGGER slow AFTER INSERT ON blobs FOR EACH ROW
WHEN (octet_length(NEW.payload) > 1000000) EXECUTE FUNCTION slow(0.6)
"""
STUCK_BLOBS = """
CREATE TRIGGER slow AFTER INSERT ON blobs FOR EACH ROW
WHEN (octet_length(NEW.payload) > 1000000) EXECUTE FUNCTION slow(100)
"""
SLOW_ITEMS = """
CREATE TRIGGER slow AFTER INSERT ON memory_items FOR EACH ROW
WHEN (NEW.key = 'slow') EXECUTE FUNCTION slow(0.8)
"""
SLOW_READS = """
ALTER TABLE blobs RENAME TO all_blobs;
CREATE VIEW blobs AS SELECT b.* FROM all_blobs b, (SELECT pg_sleep(0.5)) AS slow OFFSET 0
"""


async def bar_of(saver, thread: str, values=None) -> list[str]:
    """The list of a thread after a run of two steps."""
    return (await chain("ab", checkpointer=saver).ainvoke(values or {}, at(thread)))["bar"]


class TestLargeSaves:
    async def test_a_save_has_time_for_its_bytes(self, postgres, schema):
        """
        A large save that takes longer than the timeout for answers is stored, at the first attempt.
        """
        async with PostgresSaver(postgres.url, schema=schema, codec=PLAIN, **LIMITS) as saver:
            with postgres.connect(schema) as db:
                db.execute(SLOW + SLOW_BLOBS)
                found = await bar_of(saver, "large", LARGE)
                (rows,) = db.execute("SELECT count(*) FROM blobs WHERE octet_length(payload) > 1e6")
            renewed = saver.sessions_renewed

        assert found == ["a", "b"]
        assert (rows[0] > 0, renewed) == (True, 0)

    async def test_a_save_that_takes_too_long_fails_alone(self, postgres, schema):
        """
        The error of a large save that is given up has its size, and other runs go on.
        """
        async with PostgresSaver(postgres.url, schema=schema, codec=PLAIN, **LIMITS) as saver:
            await bar_of(saver, "before")
            with postgres.connect(schema) as db:
                db.execute(SLOW + STUCK_BLOBS)
            found: dict[str, object] = {}

            async def run(thread: str, values) -> None:
                try:
                    found[thread] = await bar_of(saver, thread, values)
                except StorageError as error:  # the server says so, or on a busy machine is silent
                    found[thread] = error.what

            async with anyio.create_task_group() as runs:
                runs.start_soon(run, "other", {})
                runs.start_soon(run, "large", LARGE)
                runs.start_soon(run, "another", {})
            after = await bar_of(saver, "large")

        assert "the save has 2 MB" in str(found.pop("large"))
        assert found == {"other": ["a", "b"], "another": ["a", "b"]}
        assert after == ["a", "b"]

    async def test_a_server_that_falls_silent_is_noticed(self, postgres, lent):
        """
        A network that stops in the midst of a large save costs the usual time, not that of its
        bytes; nothing is in doubt, and the saver works again.
        """
        with proxied(postgres.socket) as proxy:
            async with PostgresSaver(proxy.url, schema=lent, codec=PLAIN, **LIMITS) as saver:
                await bar_of(saver, "t")
                proxy.stall_at(b"silence", answered=False)
                began = time.monotonic()
                with pytest.raises(StorageError, match="the save has 16 MB") as failed:
                    await bar_of(saver, "t", {"foo": "x" * 8_000_000 + "silence" + "x" * 8_000_000})
                took_s = time.monotonic() - began
                proxy.let_new_ones_in()
                after = await bar_of(saver, "t")

        assert type(failed.value) is StorageError
        assert took_s < 10
        assert after[-2:] == ["a", "b"]

    async def test_a_save_above_the_limit_of_the_server(self, postgres, lent, monkeypatch):
        """
        A save that the server could not take is refused before it is sent, with its size; those
        beside it are stored.
        """
        monkeypatch.setattr(engine, "SAVE_BYTES_MAX", 1_000_000)
        async with PostgresSaver(postgres.url, schema=lent, codec=PLAIN, **LIMITS) as saver:
            with pytest.raises(
                StorageError, match=r"thread 'large' has 2 MB, .* at most 1 MB"
            ) as no:
                await bar_of(saver, "large", LARGE)
            found = await bar_of(saver, "other")

        assert "object storage" in no.value.do
        assert found == ["a", "b"]


class TestSlowAnswers:
    async def test_a_read_that_takes_long(self, postgres, schema):
        """
        A read that a time limit has cut off gets more time, since its values may be large.
        """
        async with PostgresSaver(postgres.url, schema=schema, codec=PLAIN, **LIMITS) as saver:
            await bar_of(saver, "t")
            with postgres.connect(schema) as db:
                db.execute(SLOW_READS)
            state = await chain("ab", checkpointer=saver).aget_state(at("t"))

        assert state.values["bar"] == ["a", "b"]

    async def test_a_store_that_takes_long(self, postgres, schema):
        """
        An item whose storing takes longer than the timeout for answers is stored, and another
        thread waits for its turn meanwhile.
        """
        with PostgresStore(postgres.url, schema=schema, **LIMITS) as store:
            store.put(("a",), "before", {"n": 0})
            with postgres.connect(schema) as db:
                db.execute(SLOW + SLOW_ITEMS)
            with ThreadPoolExecutor(2) as pool:
                put = pool.submit(store.put, ("a",), "slow", {"n": 1})
                item = pool.submit(store.get, ("a",), "before").result(PATIENCE_S)
                put.result(PATIENCE_S)
            stored = store.get(("a",), "slow")

        assert (item.value, stored.value) == ({"n": 0}, {"n": 1})


class TestAttempts:
    def test_a_commit_in_doubt_is_looked_up(self):
        """
        The time to look up a COMMIT begins with its own loss, not with earlier failures.
        """
        attempts = Attempts(renews=True, reconnect_timeout_s=0.05, attempts_max=3)
        assert attempts.again(ErrorKind.LOST)
        threading.Event().wait(0.06)
        assert not attempts.again(ErrorKind.LOST)

        assert attempts.again(ErrorKind.LOST, unsure=True)
        threading.Event().wait(0.06)
        assert not attempts.again(ErrorKind.LOST, unsure=True)
