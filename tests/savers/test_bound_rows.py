"""Encrypted rows belong to their place: write access to a store can't move or replay them."""

import sqlite3
import subprocess
import sys
from operator import add
from pathlib import Path
from typing import Annotated, TypedDict

import pytest

from actorgraph import Codec, Command, EncryptionError, SqliteSaver, interrupt
from tests.support.graphs import at, in_a_row

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")

K1, K2 = b"1" * 32, b"2" * 32
SECRET = "TheSecretText"  # noqa: S105 - a text to look for

ATTACKS = {
    "a value of another thread": """
        UPDATE blobs SET payload = (SELECT o.payload FROM blobs o WHERE o.thread = 2
            AND o.channel = 'foo' ORDER BY o.version DESC LIMIT 1)
        WHERE thread = 1 AND channel = 'foo'""",
    "an old value": """
        UPDATE blobs SET payload = (SELECT o.payload FROM blobs o WHERE o.thread = 1
            AND o.channel = 'foo' ORDER BY o.version LIMIT 1)
        WHERE thread = 1 AND channel = 'foo'""",
    "a value of another channel": """
        UPDATE blobs SET payload = (SELECT o.payload FROM blobs o WHERE o.thread = 1
            AND o.channel = 'other' ORDER BY o.version DESC LIMIT 1)
        WHERE thread = 1 AND channel = 'foo'""",
    "a list of another thread": """
        UPDATE ranges SET payload = (SELECT o.payload FROM ranges o WHERE o.thread = 2
            AND o.channel = ranges.channel AND o.start = ranges.start) WHERE thread = 1""",
    "writes of another thread": """
        UPDATE writes SET payload = (SELECT o.payload FROM writes o WHERE o.thread = 2
            AND o.idx = writes.idx LIMIT 1) WHERE thread = 1""",
    "writes of another task": """
        UPDATE writes SET task = zeroblob(16) WHERE thread = 1""",
    "an answer for a question": "UPDATE writes SET idx = -4 WHERE thread = 1 AND idx = -3",
    "a tag that is cut": "UPDATE blobs SET payload = substr(payload, 1, length(payload) - 4)",
    "a changed byte": """
        UPDATE blobs SET payload = CAST(substr(payload, 1, length(payload) - 1) || x'00' AS BLOB)
        WHERE substr(payload, -1) != x'00'""",
    "a plain value": "UPDATE blobs SET payload = x'a178' ",
    "a plain list": "UPDATE ranges SET payload = x'0000000391a178'",
    "plain writes": "UPDATE writes SET payload = x'9192a3666f6fa178'",
    "a number in the record": """
        UPDATE checkpoints SET record = json_set(record, '$.values', json('{"foo": 1}'),
            '$.blobs', json('[]')) WHERE thread = 1""",
}

FORGET = (
    "UPDATE checkpoints SET crc = NULL",
    "UPDATE blobs SET crc = NULL",
    "UPDATE writes SET crc = NULL",
)

OPTIMIZED = """
from actorgraph import Codec, EncryptionError
codec = Codec(keys={"k": b"1" * 32})
mine, theirs = ("value", "t", "", "c", 1), ("value", "u", "", "c", 1)
sealed, other = codec.encode("x", "x", mine), Codec(keys={"k": b"2" * 32}).encode("x", "x", mine)
accepted = 0
for payload, place in ((sealed, theirs), (sealed[:-1], mine), (b"\\xa1x", mine), (other, mine)):
    try:
        codec.decode(payload, place)
        accepted += 1
    except EncryptionError:
        pass
print(accepted, __debug__)
"""


class Words(TypedDict, total=False):
    foo: str
    other: str
    bar: Annotated[list[str], add]


def graph(saver):
    """A list that grows, two values, and a question at the end."""

    async def note(state):
        return {"foo": f"{SECRET} {state['foo']}", "other": "x", "bar": [SECRET] * 3}

    async def ask(state):
        return {"bar": [interrupt("sure?")]}

    return in_a_row({"note": note, "ask": ask}, schema=Words, checkpointer=saver)


async def fill(saver):
    """Two threads that wait for an answer."""
    for thread in ("mine", "theirs"):
        await graph(saver).ainvoke({"foo": thread, "bar": [thread]}, at(thread))


def changed(path, statement):
    """Change the database as an attacker without the key could; at least one row must change.

    Checksums aren't secret: they are taken away, as if the rows were of an older version.
    """
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement).rowcount > 0
        for forget in FORGET:
            connection.execute(forget)
    connection.close()


class TestMovedRows:
    @pytest.mark.promise("T33")
    @pytest.mark.parametrize("attack", ATTACKS)
    async def test_no_row_is_accepted_at_another_place(self, tmp_path, attack):
        """
        A row that was moved, replayed, cut, changed or written without the key is refused by
        every reader, and nothing is made of it.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            await fill(saver)
        changed(path, ATTACKS[attack])

        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            runs = graph(saver)
            with pytest.raises(EncryptionError):
                await runs.aget_state(at("mine"))
            with pytest.raises(EncryptionError):
                await runs.ainvoke(Command(resume="yes"), at("mine"))
            with pytest.raises(EncryptionError):
                [found async for found in saver.alist(at("mine"))]

    async def test_unreadable_threads_are_not_copied(self, tmp_path):
        """
        A copy of a thread with a changed row is refused as a whole; others are copied.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            await fill(saver)
        changed(path, ATTACKS["a list of another thread"])

        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            with pytest.raises(EncryptionError):
                await saver.acopy_thread("mine", "copy")
            await saver.acopy_thread("theirs", "other copy")
            assert await saver.alist_threads() == ["mine", "other copy", "theirs"]

    async def test_the_input_of_a_run_belongs_to_it(self, tmp_path):
        """
        The input of a run of another thread is not taken for this thread's input.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            codec = saver.codec
            payload = codec.encode({"foo": SECRET}, "input", ("input", "theirs", b"r" * 16))
            assert codec.decode(payload, ("input", "theirs", b"r" * 16)) == {"foo": SECRET}
            for place in (("input", "mine", b"r" * 16), ("input", "theirs", b"s" * 16), ()):
                with pytest.raises(EncryptionError, match="another thread"):
                    codec.decode(payload, place)

    @pytest.mark.promise("T33")
    def test_nor_is_it_with_python_o(self, tmp_path):
        """
        No check is an `assert`: what is refused is refused under `python -O` too.
        """
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-O", "-c", OPTIMIZED],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["0", "False"]


def keyed(saver, **keys):
    """A saver whose values are encrypted with these keys."""
    saver.codec = Codec(keys=keys)
    return saver


class TestCopies:
    async def test_a_copy_is_read_and_goes_on_by_itself(self, store):
        """
        An encrypted thread is copied with its lists and its waiting question; both go on, and
        neither takes the rows of the other.
        """
        async with keyed(store.saver(), k1=K1) as saver:
            await fill(saver)
            before = await graph(saver).aget_state(at("mine"))
            await saver.acopy_thread("mine", "copy")
            copy = await graph(saver).aget_state(at("copy"))
            ended = await graph(saver).ainvoke(Command(resume="yes"), at("copy"))

            assert (copy.values, copy.next) == (before.values, before.next)
            assert ended["bar"] == [*before.values["bar"], "yes"]
            assert await graph(saver).aget_state(at("mine")) == before

    async def test_a_merged_list_is_copied(self, tmp_path):
        """
        Rows of a list that were put together keep the place of each of their parts.
        """

        async def many(state):
            return {"bar": [SECRET] * 40}

        async with SqliteSaver(tmp_path / "runs.db", codec=Codec(keys={"k1": K1})) as saver:
            runs = in_a_row({"many": many}, checkpointer=saver)
            for _ in range(14):
                await runs.ainvoke({"bar": ["x"]}, at("mine"))
            await saver.acopy_thread("mine", "copy")
            mine, copy = [(await runs.aget_state(at(t))).values for t in ("mine", "copy")]

        assert len(copy["bar"]) == 14 * 41
        assert copy == mine


class TestRotation:
    @pytest.mark.promise("S206")
    async def test_the_old_key_is_not_needed_any_more(self, store):
        """
        After rotate_keys everything is read with the new key alone.
        """
        async with keyed(store.saver(), k1=K1) as saver:
            await fill(saver)
            before = await graph(saver).aget_state(at("mine"))
            assert await keyed(saver, k2=K2, k1=K1).arotate_keys() == 2
            assert await graph(keyed(saver, k2=K2)).aget_state(at("mine")) == before
            ended = await graph(saver).ainvoke(Command(resume="yes"), at("mine"))
        assert ended["bar"][-1] == "yes"

    @pytest.mark.promise("S206")
    async def test_unencrypted_values_are_encrypted_by_a_rotation(self, tmp_path):
        """
        A thread begun without a key has no readable value left in the file after rotate_keys
        and a vacuum.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await fill(saver)
        assert SECRET.encode() in path.read_bytes()

        codec = Codec(keys={"k1": K1}, reads_plain=True)
        async with SqliteSaver(path, codec=codec) as saver:
            await saver.arotate_keys()
            await saver.avacuum()
            assert (await graph(saver).aget_state(at("mine"))).values["foo"] == f"{SECRET} mine"
        files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert SECRET.encode() not in files

    async def test_a_key_that_is_missing_changes_nothing(self, tmp_path):
        """
        A thread that can't be read is left as it was, with an error.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            await fill(saver)
        async with SqliteSaver(path, codec=Codec(keys={"k2": K2})) as saver:
            with pytest.raises(EncryptionError, match="k1"):
                await saver.arotate_keys("mine")
        async with SqliteSaver(path, codec=Codec(keys={"k1": K1})) as saver:
            assert (await graph(saver).aget_state(at("mine"))).next == ("ask",)
