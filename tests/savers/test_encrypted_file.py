"""Encrypted and compressed values on the disk of each store."""

import pytest

from actorgraph import Codec, Command, EncryptionError, interrupt
from tests.support.graphs import at, in_a_row
from tests.support.stored_bytes import KINDS, bytes_of

pytestmark = pytest.mark.every_saver

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

K1, K2 = b"1" * 32, b"2" * 32
SECRET = "TheSecretText"  # noqa: S105 - a text to look for


ON_DISK = pytest.mark.parametrize("store", KINDS, indirect=True)


def opened(store, **codec):
    """A saver with a codec, as a new process makes it where the kind lasts."""
    saver = store.again()
    saver.codec = Codec(**codec).in_form("json" if store.kind == "jsonl" else "msgpack")
    return saver


def graph(saver):
    """A node that adds to a list, one that asks, one that fails."""

    async def add(state):
        return {"foo": f"{SECRET} 1", "bar": [f"{SECRET} 2"]}

    async def ask(state):
        return {"bar": [interrupt({"question": f"{SECRET} 3"})]}

    async def fail(state):
        raise ValueError(f"{SECRET} 4")

    return in_a_row({"add": add, "ask": ask, "fail": fail}, checkpointer=saver)


async def talk(saver, durability="sync"):
    """Run the graph up to its failure."""
    runs = graph(saver)
    given = {"foo": f"{SECRET} 5", "bar": [f"{SECRET} 6"]}
    await runs.ainvoke(given, at(), durability=durability)
    with pytest.raises(ValueError, match="4"):
        await runs.ainvoke(Command(resume=f"{SECRET} 7"), at(), durability=durability)


@pytest.mark.promise("S206")
@pytest.mark.langgraph("F-E21")
@ON_DISK
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_no_text_of_a_value_is_in_the_files(store, durability):
    """
    Inputs, state, lists, questions, answers and errors are in no byte of the store or its log, in
    no mode of durability, open or closed.
    """
    async with opened(store, keys={"k1": K1}) as saver:
        await talk(saver, durability)
        found = bytes_of(store)
        if store.kind == "sqlite":
            assert store.path.with_name("runs.db-wal").stat().st_size > 0

    assert SECRET.encode() not in found + bytes_of(store)
    assert b"aesgcm/k1" in found


@pytest.mark.promise("S206")
@pytest.mark.langgraph("F-E21")
@ON_DISK
async def test_a_rotated_key_goes_on_with_old_threads(store):
    """
    After the keys are rotated a thread's old values are read and its new ones have the new key.
    """
    async with opened(store, keys={"k1": K1}) as saver:
        await talk(saver)
        before = await graph(saver).aget_state(at())

    async with opened(store, keys={"k2": K2, "k1": K1}) as saver:
        assert await graph(saver).aget_state(at()) == before
        await graph(saver).aupdate_state(at(), {"bar": ["new"]})
        after = await graph(saver).aget_state(at())

    assert after.values["bar"] == [*before.values["bar"], "new"]
    assert b"aesgcm/k2" in bytes_of(store)


@pytest.mark.promise("S206")
@ON_DISK
@pytest.mark.parametrize("keys", [None, {"k1": K2}, {"k2": K2}])
async def test_other_keys_read_nothing(store, keys):
    """
    Without the key a thread is neither read nor gone on with, and stays as it is.
    """
    async with opened(store, keys={"k1": K1}) as saver:
        await talk(saver)
        before = await graph(saver).aget_state(at())

    async with opened(store, keys=keys) as saver:
        with pytest.raises(EncryptionError):
            await graph(saver).aget_state(at())
        with pytest.raises(EncryptionError):
            await graph(saver).ainvoke({"foo": "x"}, at())

    async with opened(store, keys={"k1": K1}) as saver:
        assert await graph(saver).aget_state(at()) == before


@pytest.mark.promise("S206")
@ON_DISK
async def test_a_number_is_encrypted_too(store):
    """
    Numbers, which are readable in a record otherwise, are encrypted too.
    """

    async def add(state):
        return {"foo": 1234567890123}

    async with opened(store, keys={"k1": K1}) as saver:
        runs = in_a_row({"add": add}, checkpointer=saver)
        await runs.ainvoke({"foo": None}, at())
        assert (await runs.aget_state(at())).values["foo"] == 1234567890123

    assert b"1234567890123" not in bytes_of(store)


@pytest.mark.promise("S217")
@pytest.mark.every_loop("sqlite-memory")
async def test_compression_may_be_switched_at_any_time(store):
    """
    Compressed and other values of one thread are read together, with compression on or off.
    """
    line = "the same again " * 200

    async def add(state):
        return {"foo": line, "bar": [line]}

    async with store.saver() as saver:
        for above in (None, 100, None):
            saver.codec = opened(store, compress_above=above).codec
            result = await in_a_row({"add": add}, checkpointer=saver).ainvoke({"bar": []}, at())

    assert result == {"foo": line, "bar": [line] * 3}
