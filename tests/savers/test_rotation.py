"""After a rotation the old key can be dropped, whatever the store holds; on every saver."""

import sqlite3
from contextlib import closing

import pytest

from actorgraph import ActorSystem, Codec, Command, EncryptionError, StorageError, interrupt
from actorgraph.codec.encryption import input_of
from actorgraph.codec.restore import open_claim
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.commits import Claim, Commit, LoadCheckpoint
from tests.support.every_saver import Store
from tests.support.graphs import ab, at, history, in_a_row

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

OLD, NEW = b"1" * 32, b"2" * 32


def keyed(store, **keys: bytes):
    """The store's saver with these keys, the first of which encrypts."""
    saver = store.again()
    form = "json" if store.kind == "jsonl" else "msgpack"
    saver.codec = Codec(keys=keys).in_form(form)
    return saver


async def ask(_):
    return {"bar": [interrupt("?")]}


def asking(saver):
    """A graph that asks a question after two nodes."""
    return in_a_row({"a": grow, "ask": ask}, checkpointer=saver)


async def grow(_):
    return {"foo": "secret", "bar": ["secret"] * 20}


async def dead_run(saver, thread: str) -> None:
    """The rows of a process that dies in exit mode before it has stored a checkpoint."""
    run = b"\x01" * 16
    given = saver.codec.encode({"foo": "given"}, "input", input_of(thread, run))
    claim = Claim(None, "exit", given)
    await host_of(saver).writer.store(Commit(thread, "", run, 1, 1, None, claim))


async def claim_of(saver):
    """The claim that the dead run has left on thread "t"."""
    loaded = await host_of(saver).reader.ask(LoadCheckpoint("t", "", None))
    return open_claim(saver.codec, loaded, "t")


async def rotate(store, saver) -> None:
    """Encrypt with the new key."""
    saver.codec = keyed(store, new=NEW, old=OLD).codec
    await saver.arotate_keys()
    saver.codec = keyed(store, new=NEW).codec


@pytest.mark.promise("S206")
async def test_a_run_that_left_its_input_only(store):
    """
    A thread of a dead run in exit mode, which has nothing but its input, is read with the new key
    alone, and its run goes on from that input; it isn't a listed thread.
    """
    async with keyed(store, old=OLD) as saver:
        await dead_run(saver, "t")
        await ab(saver).ainvoke({}, at("other"))
        assert await saver.alist_threads() == ["other"]
        await rotate(store, saver)
        assert await saver.alist_threads() == ["other"]
        assert (await claim_of(saver)).input == {"foo": "given"}
    if store.on_disk:
        async with keyed(store, new=NEW) as saver:
            assert (await ab(saver).ainvoke(None, at("t")))["bar"] == ["a", "b"]


async def test_without_a_rotation_the_input_needs_the_old_key(tmp_path):
    """
    The test above is not true by itself: without the old key the input can't be read.
    """
    store = Store("memory", tmp_path)
    async with keyed(store, old=OLD) as saver:
        await dead_run(saver, "t")
        saver.codec = keyed(store, new=NEW).codec
        with pytest.raises(EncryptionError):
            await claim_of(saver)


@pytest.mark.promise("S206")
async def test_everything_of_a_thread(store):
    """
    Values, growing lists, questions, answers, history and copies of a thread are read with the new
    key alone.
    """
    async with keyed(store, old=OLD) as saver:
        await asking(saver).ainvoke({"foo": "x"}, at())
        await asking(saver).ainvoke(Command(resume="first"), at())
        await asking(saver).ainvoke({"foo": "y"}, at())
        before = await history(asking(saver), at())
        await rotate(store, saver)
        assert await history(asking(saver), at()) == before
        await saver.acopy_thread("t", "copy")
        ended = await asking(saver).ainvoke(Command(resume="second"), at("copy"))

    assert ended["bar"] == [*["secret"] * 20, "first", *["secret"] * 20, "second"]


@pytest.mark.promise("S206")
async def test_the_runs_of_a_system(store):
    """
    The events of a system's runs are read with the new key alone, more than a page of them too.
    """
    if not getattr(store.saver(), "keeps_runs", False):
        pytest.skip("it keeps no runs")
    from actorgraph.runtime.saver import resealing

    page, resealing.RESEAL_PAGE = resealing.RESEAL_PAGE, 3
    try:
        async with keyed(store, old=OLD) as saver:
            async with ActorSystem({"g": asking(saver)}, saver=saver) as system:
                run = await system.start("g", "t", {"foo": "x"}, resumable=True)
                await run.wait()
                before = [event async for event in run.events()]
            saver.codec = keyed(store, new=NEW).codec
            async with ActorSystem({"g": asking(saver)}, saver=saver) as system:
                with pytest.raises(EncryptionError):
                    [event async for event in (await system.run(run.id)).events()]
            await rotate(store, saver)
            async with ActorSystem({"g": asking(saver)}, saver=saver) as system:
                after = [event async for event in (await system.run(run.id)).events()]
    finally:
        resealing.RESEAL_PAGE = page

    assert len(before) > 3
    assert after == before


async def test_a_thread_that_can_not_be_read_holds_up_no_other(store):
    """
    A thread whose key is lost stays as it is; the error names it, and every other thread is
    encrypted with the new key, those before it and those behind it.
    """
    async with keyed(store, old=OLD) as saver:
        for thread in ("a", "c", "e"):
            await ab(saver).ainvoke({}, at(thread))
        saver.codec = keyed(store, lost=b"3" * 32).codec
        for thread in ("b", "d"):
            await ab(saver).ainvoke({}, at(thread))
        saver.codec = keyed(store, new=NEW, old=OLD).codec

        with pytest.raises(EncryptionError) as failed:
            await saver.arotate_keys()

        notes = "\n".join(failed.value.__notes__)
        assert notes.count("also: ") == 1
        assert all(f"thread {thread!r} stays as it is" in notes for thread in "bd")
        saver.codec = keyed(store, new=NEW).codec
        for thread in ("a", "c", "e"):
            assert (await ab(saver).aget_state(at(thread))).values["bar"] == ["a", "b"]
        for thread in ("b", "d"):
            with pytest.raises(EncryptionError):
                await ab(saver).aget_state(at(thread))


DAMAGED = {
    "a value": """UPDATE blobs SET crc = 7
        WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'b')""",
    "a write": """UPDATE writes SET crc = 7
        WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'b')""",
    "an event": """UPDATE events SET crc = 7
        WHERE run = (SELECT run FROM system_runs WHERE thread_id = 'b')""",
}


@pytest.mark.parametrize("damage", DAMAGED)
async def test_a_damaged_row_holds_up_no_other_thread(damage, tmp_path):
    """
    A row that a checksum refuses stays as it is, and the error names it; everything of other
    threads is read with the new key alone.
    """
    store = Store("sqlite", tmp_path)
    runs = {}
    async with keyed(store, old=OLD) as saver:
        async with ActorSystem({"g": ab(saver)}, saver=saver) as system:
            for thread in "abc":
                runs[thread] = await system.start("g", thread, {}, resumable=True)
                await runs[thread].wait()
        with closing(sqlite3.connect(saver.path)) as db, db:
            assert db.execute(DAMAGED[damage]).rowcount > 0
        saver.codec = keyed(store, new=NEW, old=OLD).codec
        with pytest.raises(StorageError, match="thread 'b' is damaged") as failed:
            await saver.arotate_keys()
        saver.codec = keyed(store, new=NEW).codec
        async with ActorSystem({"g": ab(saver)}, saver=saver) as system:
            for thread in "ac":
                events = [event async for event in (await system.run(runs[thread].id)).events()]
                assert events[-1].kind == "end"
                assert (await ab(saver).aget_state(at(thread))).values["bar"] == ["a", "b"]

    assert "thread 'b' stays as it is" in "".join(failed.value.__notes__)
