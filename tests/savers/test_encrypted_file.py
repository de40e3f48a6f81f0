"""Encrypted and compressed values in a real SQLite file."""

import pytest

from actorgraph import Codec, Command, EncryptionError, SqliteSaver, interrupt
from tests.graphs import at, in_a_row

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

K1, K2 = b"1" * 32, b"2" * 32
SECRET = "TheSecretText"  # noqa: S105 - a text to look for


def stored(path):
    """The bytes of the database, and of its log and index if they are there."""
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


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


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_no_text_of_a_value_is_in_the_files(tmp_path, durability):
    """
    Inputs, state, lists, questions, answers and errors are in no byte of the database or its
    log, in no mode of durability, open or closed. Promise: S206. LangGraph: F-E21.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
        await talk(saver, durability)
        opened = stored(path)
        assert (tmp_path / "runs.db-wal").stat().st_size > 0

    assert SECRET.encode() not in opened + stored(path)
    assert b"aesgcm/k1" in opened


async def test_a_rotated_key_goes_on_with_old_threads(tmp_path):
    """
    After the keys are rotated a thread's old values are read and its new ones have the new key.
    Promise: S206. LangGraph: F-E21.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
        await talk(saver)
        before = await graph(saver).aget_state(at())

    async with SqliteSaver(path, codec=Codec(keys={"k2": K2, "k1": K1})) as saver:
        assert await graph(saver).aget_state(at()) == before
        await graph(saver).aupdate_state(at(), {"bar": ["new"]})
        after = await graph(saver).aget_state(at())

    assert after.values["bar"] == [*before.values["bar"], "new"]
    assert b"aesgcm/k2" in stored(path)


@pytest.mark.parametrize("keys", [None, {"k1": K2}, {"k2": K2}])
async def test_other_keys_read_nothing(tmp_path, keys):
    """
    Without the key a thread is neither read nor gone on with, and stays as it is.
    Promise: S206.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
        await talk(saver)
        before = await graph(saver).aget_state(at())

    async with SqliteSaver(path, codec=Codec(keys=keys)) as saver:
        with pytest.raises(EncryptionError):
            await graph(saver).aget_state(at())
        with pytest.raises(EncryptionError):
            await graph(saver).ainvoke({"foo": "x"}, at())

    async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
        assert await graph(saver).aget_state(at()) == before


async def test_a_number_is_no_exception(tmp_path):
    """
    Numbers, which stand readable in a record otherwise, are encrypted too. Promise: S206.
    """
    path = tmp_path / "runs.db"

    async def add(state):
        return {"foo": 1234567890123}

    async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
        runs = in_a_row({"add": add}, checkpointer=saver)
        await runs.ainvoke({"foo": None}, at())
        assert (await runs.aget_state(at())).values["foo"] == 1234567890123

    assert b"1234567890123" not in stored(path)


async def test_compression_may_be_switched_at_any_time(tmp_path):
    """
    Compressed and other values of one thread are read together, with compression on or off.
    Promise: S217.
    """
    path = tmp_path / "runs.db"
    line = "the same again " * 200

    async def add(state):
        return {"foo": line, "bar": [line]}

    for above in (None, 100, None):
        async with SqliteSaver(path, codec=Codec(compress_above=above)) as saver:
            result = await in_a_row({"add": add}, checkpointer=saver).ainvoke({"bar": []}, at())

    assert result == {"foo": line, "bar": [line] * 3}
