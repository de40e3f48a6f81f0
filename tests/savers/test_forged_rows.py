"""Encrypted rows that were changed without the key, in files and in PostgreSQL.

Changes of an SQLite file are in test_bound_rows.py.
"""

import json
import zlib

import pytest

from actorgraph import Codec, Command, EncryptionError
from tests.savers.test_bound_rows import FORGET, K1, fill, graph
from tests.support.graphs import at

pytestmark = pytest.mark.every_saver

pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")


def _give(line, part, place, key, value):
    line[part][place][key] = value


def _cut(lines):
    sealed = lines[1]["values"][1]["value"]
    sealed["$sealed"] = sealed["$sealed"][:-4]


def _inline(lines):
    record = lines[1]["checkpoints"][0]["record"]
    record["blobs"].remove("foo")
    record["values"] = {"foo": 1}


LINES = {
    "a value of another thread": lambda own, other: _give(
        own[1], "values", 1, "value", other[1]["values"][1]["value"]
    ),
    "an old value": lambda own, _: _give(
        own[1], "values", 1, "value", own[0]["values"][2]["value"]
    ),
    "a value of another channel": lambda own, _: _give(
        own[1], "values", 1, "value", own[1]["values"][2]["value"]
    ),
    "a list of another thread": lambda own, other: _give(
        own[1], "lists", 0, "items", other[1]["lists"][0]["items"]
    ),
    "writes of another thread": lambda own, other: _give(
        own[2], "ledger", 0, "writes", other[2]["ledger"][0]["writes"]
    ),
    "an answer for a question": lambda own, _: _give(own[2], "ledger", 0, "index", -4),
    "a tag that is cut": lambda own, _: _cut(own),
    "a plain value": lambda own, _: _give(own[1], "values", 1, "value", "x"),
    "a plain list": lambda own, _: _give(own[1], "lists", 0, "items", ["x"]),
    "plain writes": lambda own, _: _give(own[2], "ledger", 0, "writes", [["foo", "x"]]),
    "a number in the record": lambda own, _: _inline(own),
}

ROWS = {
    "a value of another thread": """
        UPDATE blobs b SET payload = o.payload FROM blobs o WHERE b.thread = %(own)s
        AND o.thread = %(other)s AND (o.channel, o.version) = (b.channel, b.version)""",
    "an old value": """
        UPDATE blobs b SET payload = o.payload FROM blobs o WHERE b.thread = %(own)s
        AND o.thread = %(own)s AND b.channel = 'foo' AND o.channel = 'foo' AND o.version = 2""",
    "a list of another thread": """
        UPDATE ranges b SET payload = o.payload FROM ranges o WHERE b.thread = %(own)s
        AND o.thread = %(other)s AND o.start = b.start""",
    "writes of another thread": """
        UPDATE writes b SET payload = o.payload FROM writes o WHERE b.thread = %(own)s
        AND o.thread = %(other)s AND o.idx = b.idx""",
    "a tag that is cut": """
        UPDATE blobs SET payload = substr(payload, 1, length(payload) - 4)
        WHERE thread = %(own)s""",
    "a plain value": "UPDATE blobs SET payload = '\\xa178' WHERE thread = %(own)s",
    "plain writes": "UPDATE writes SET payload = '\\x9192a3666f6fa178' WHERE thread = %(own)s",
}


def sealed(store):
    """A saver with the key."""
    saver = store.again()
    saver.codec = Codec(keys={"k1": K1}).in_form("json" if store.kind == "jsonl" else "msgpack")
    return saver


async def nothing_is_accepted(store):
    """Each way to read a thread is refused."""
    async with sealed(store) as saver:
        runs = graph(saver)
        with pytest.raises(EncryptionError):
            await runs.aget_state(at("mine"))
        with pytest.raises(EncryptionError):
            await runs.ainvoke(Command(resume="yes"), at("mine"))
        with pytest.raises(EncryptionError):
            [found async for found in saver.alist(at("mine"))]


@pytest.mark.promise("T33")
@pytest.mark.parametrize("store", ["jsonl"], indirect=True)
@pytest.mark.parametrize("attack", LINES)
async def test_no_changed_line_is_accepted(store, attack):
    """
    A value that was moved, replayed, cut or written without the key into a line, whose checksum
    fits, is refused by every reader.
    """
    async with sealed(store) as saver:
        await fill(saver)
    files = [store.path.with_name("threads") / f"{name}.jsonl" for name in ("mine", "theirs")]
    own, other = ([json.loads(line) for line in file.read_bytes().splitlines()] for file in files)
    LINES[attack](own, other)
    files[0].with_name(".marks").unlink()  # who writes to the files can remove it
    files[0].write_bytes(b"".join(_line(line) for line in own))

    await nothing_is_accepted(store)


def _line(line):
    del line["crc"]
    body = json.dumps(line, separators=(",", ":")).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


@pytest.mark.promise("T33")
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
@pytest.mark.parametrize("attack", ROWS)
async def test_no_changed_row_is_accepted(store, postgres, attack):
    """
    The same for rows of PostgreSQL.
    """
    async with sealed(store) as saver:
        await fill(saver)
    with postgres.connect(store.schema) as db:
        threads = dict(db.execute("SELECT thread_id, thread FROM threads").fetchall())
        values = {"own": threads["mine"], "other": threads["theirs"]}
        assert db.execute(ROWS[attack], values).rowcount > 0
        for forget in FORGET[1:]:  # checksums are no secret
            db.execute(forget)

    await nothing_is_accepted(store)
