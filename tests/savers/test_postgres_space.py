"""How much of a PostgreSQL database a growing thread takes."""

import random
import string
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, START, Codec, PostgresSaver, StateGraph, add_messages
from actorgraph.savers.postgres.saver import COMPRESS_ABOVE
from tests.savers.test_growing_lists import growing, item
from tests.support.graphs import at

CHARS = 400
ALPHABET = string.ascii_letters + string.digits + "  "

SIZES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind = 'r' AND c.relname LIKE %s
"""


class Chat(TypedDict):
    """Messages, made objects with ids."""

    messages: Annotated[list[Any], add_messages]


class Plain(TypedDict):
    """Messages as they come: dicts."""

    messages: Annotated[list[Any], add]


async def chat(saver: Any, turns: int, schema: type = Chat) -> dict[str, Any]:
    """A chat of messages of random characters, one thread; the state that it ends with."""
    texts = random.Random(400)

    def message(role: str) -> dict[str, str]:
        return {"role": role, "content": "".join(texts.choices(ALPHABET, k=CHARS))}

    async def answer(_: Any) -> dict[str, Any]:
        return {"messages": [message("assistant")]}

    builder = StateGraph(schema).add_node("answer", answer)
    builder.add_edge(START, "answer").add_edge("answer", END)
    graph = builder.compile(checkpointer=saver)
    for _ in range(turns):
        last = await graph.ainvoke({"messages": [message("user")]}, at(), durability="sync")
    assert len(last["messages"]) == 2 * turns
    return last


@pytest.mark.promise("C1")
async def test_a_growing_list_leaves_little_dead_space(postgres, lent):
    """
    A list to which 80 messages were added one by one takes at most four times its own bytes,
    tables and indexes and all, although nothing was vacuumed.
    """
    async with PostgresSaver(postgres.url, schema=lent) as saver:
        with postgres.connect(lent) as db:
            db.execute("TRUNCATE ranges")
            state = await chat(saver, 40)
            (taken,) = db.execute(SIZES, ("ranges",)).fetchone()

    assert taken <= 4 * len(Codec().encode(state, "state"))


ROWS_MAX = 16
USED = "SELECT count(*), count(*) FILTER (WHERE lineage < 0), max(start + count) FROM ranges"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_rows_that_were_merged_are_used_again(postgres, lent):
    """
    A list of 60 full rows never has more than 16 in the table, nor a page for each that it had:
    new ones take the places of those that were merged. Copies, backups and prunes leave the free
    ones out.
    """

    async def items(name: str) -> list[str]:
        return (await graph.aget_state(at(name))).values["items"]

    async with PostgresSaver(postgres.url, schema=lent) as saver:
        with postgres.connect(lent) as db:
            db.execute("TRUNCATE ranges")
            graph = growing(60, 40, saver)
            await graph.ainvoke({}, {**at(), "recursion_limit": 100}, durability="sync")
            rows, free, end = db.execute(USED).fetchone()
            (pages,) = db.execute("SELECT pg_relation_size('ranges') / 8192").fetchone()
            await saver.acopy_thread("t", "copy")
            copied = db.execute(USED).fetchone()[1]
            await saver.aprune(["t"])
            left = db.execute(USED).fetchone()[1]
        found = [await items("t"), await items("copy")]

    assert (rows <= ROWS_MAX, free > 0, end) == (True, True, 60 * 40)
    assert pages <= 2 * ROWS_MAX
    assert (copied, left) == (free, 0)
    assert found == [[item(n) for n in range(60 * 40)]] * 2


async def test_values_are_compressed_unless_the_codec_says_otherwise(postgres, lent):
    """
    Values above 256 bytes are stored compressed; with a codec of the program's own as it says.
    """

    async def stored(codec: Codec | None) -> int:
        async with PostgresSaver(postgres.url, schema=lent, codec=codec) as saver:
            builder = StateGraph(Chat).add_node("answer", lambda _: None)
            builder.add_edge(START, "answer").add_edge("answer", END)
            graph = builder.compile(checkpointer=saver)
            given = {"messages": [{"role": "user", "content": "word " * COMPRESS_ABOVE}]}
            config = at("own" if codec else "default")
            await graph.ainvoke(given, config)
            state = await graph.aget_state(config)
        assert state.values["messages"][0].content == "word " * COMPRESS_ABOVE
        with postgres.connect(lent) as db:
            found = db.execute(
                "SELECT max(length(payload)) FROM ranges JOIN threads USING (thread) "
                "WHERE thread_id = %s",
                (config["configurable"]["thread_id"],),
            ).fetchone()
        return found[0]

    assert await stored(None) < COMPRESS_ABOVE < 5 * COMPRESS_ABOVE < await stored(Codec())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_compressed_payload_is_read_by_any_codec(anyio_backend):
    """
    A small and a large payload are compressed with windows of different sizes; every codec reads
    both.
    """
    del anyio_backend
    for size in (300, 5_000, 500_000):
        payload = Codec(compress_above=256).encode("ab" * size, "text")
        assert len(payload) < size
        assert Codec().decode(payload) == "ab" * size


def test_compressed_values_of_older_versions_stay_readable():
    """
    A small value that the first version compressed is read: the words that zlib refers to are part
    of the stored format.
    """
    payload = b"\xc1\x01H,*\xff0\xaak\x82\xbbn\x1a\xa6\x05\x98\xe6SK\xcd\xc2<F\x00\xd2\xe24\x91"
    value = {"messages": ["additional_kwargs", "response_metadata"] * 3, "n": 1}

    assert Codec(compress_above=1).encode(value) == payload
    assert Codec().decode(payload) == value
