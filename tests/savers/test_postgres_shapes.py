"""Records in PostgreSQL: what they have in common is stored once, and readers don't notice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph import PostgresSaver, StorageError
from actorgraph.codec.records import encode_json
from actorgraph.savers.postgres import schema as tables
from actorgraph.savers.postgres.columns import register_dumpers
from actorgraph.savers.postgres.shapes import WHOLE, Shapes, form, parted
from actorgraph.savers.postgres.statements import INSERT_CHECKPOINTS
from actorgraph.storage.postgres.connections import OwnConnections
from actorgraph.storage.postgres.timeouts import Timeouts
from tests.savers.test_growing_lists import growing
from tests.support.graphs import ab, at, history

ODD = [
    "{}",
    '{"v":4,"values":{"a":-1,"b":0,"c":true,"d":null},"lists":{"m":[[2,800],[7,9]]}}',
    '{"100%":{"%s":1,"%%":2,"x:007,5]":3},"updated_channels":["a:1,2","é","\\u0000"]}',
    '{"values":{"n":9007199254740991,"m":-9007199254740991},"z":[1.5,2e3,-0]}',
    '{"lists":{"a":[[1,2],[3,4]]},"blobs":[]}',
]

NAMES = st.text("ab1%s:,[]{}\\'\" \x00é", max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def put_back(shape: str, numbers: str) -> str:
    """The result of the server's `format` for a shape: Python's % has the same rules."""
    return shape % tuple(numbers.strip("[]").split(",") if numbers != "[]" else ())


def learnt(shapes: Shapes, postgres, schema: str, *records: str) -> None:
    """Let the shapes of records be stored."""
    for record in records * 2:
        shapes.split(record)
    source = OwnConnections(postgres.url, answer_timeout_s=30.0, prepare=register_dumpers)
    with source.lease() as connection:
        shapes.store(connection, Timeouts().within(f'"{schema}"'))
    source.close()


class TestTakingApart:
    @given(VALUES)
    def test_any_record_is_put_together_again(self, value):
        """
        A shape and its numbers make the text that they came from, with any content.
        """
        text = encode_json(value)
        key, numbers = parted(text)

        assert isinstance(json.loads(numbers), list)
        assert put_back(form(key), numbers) == text

    def test_the_server_puts_records_together(self, postgres, lent):
        """
        The view has each record byte for byte, also with what `format` and JSON escape.
        """
        shapes = Shapes()
        PostgresSaver(postgres.url, schema=lent).setup()
        learnt(shapes, postgres, lent, *ODD)
        with postgres.connect(lent) as db:
            for seq, record in enumerate(ODD):
                shape, left = shapes.split(record)
                row = [[1], [""], [seq], [b"i"], [None], [seq], ["loop"], [None], ["[]"], [1]]
                db.execute(INSERT_CHECKPOINTS, [*row, ["{}"], [shape], [left], [None]])
                assert (shape, left) != (WHOLE, record)
            found = db.execute("SELECT record::text FROM checkpoints ORDER BY seq").fetchall()

        assert [text for (text,) in found] == ODD

    def test_two_texts_of_one_id(self, postgres, lent):
        """
        A shape whose id another text has is not used: its records stay whole.
        """
        first, second = Shapes(), Shapes()
        PostgresSaver(postgres.url, schema=lent).setup()
        learnt(first, postgres, lent, '{"a":1}')
        with postgres.connect(lent) as db:
            db.execute("UPDATE shapes SET form = 'another'")
        learnt(second, postgres, lent, '{"a":1}')

        assert first.split('{"a":2}')[1] == "[2]"
        assert second.split('{"a":2}') == (WHOLE, '{"a":2}')


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
class TestStored:
    async def test_records_of_a_loop_are_numbers(self, postgres, lent):
        """
        Rows of a long thread hold few bytes of their records, and a person sees all of each.
        """
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            graph = growing(40, 1, saver)
            await graph.ainvoke({}, {**at(), "recursion_limit": 100}, durability="sync")
            points = await history(graph, at())
        with postgres.connect(lent) as db:
            few, shapes = db.execute(
                "SELECT count(*) FILTER (WHERE length(record::text) > 60), count(DISTINCT shape) "
                "FROM points"
            ).fetchone()
            seen = db.execute(
                "SELECT record ->> 'v', record -> 'channel_versions', length(record::text) "
                "FROM checkpoints ORDER BY seq"
            ).fetchall()

        assert few <= 6
        assert shapes <= 3
        assert [len(point.values["items"]) for point in points] == [*range(40, -1, -1), 0]
        assert all(v == "4" and "items" in versions for v, versions, _ in seen[2:])
        assert min(size for *_, size in seen) > 100

    async def test_emptied_tables(self, postgres, lent):
        """
        Tables that are emptied under an open saver get the shapes that it uses again.
        """
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            for turn in range(6):
                if turn == 3:
                    postgres.empty(lent)
                await ab(saver).ainvoke({"foo": "x"}, at(f"t{turn}"))
            found = [len(await history(ab(saver), at(f"t{turn}"))) for turn in range(6)]

        assert found == [0, 0, 0, 4, 4, 4]

    async def test_a_shape_that_is_gone(self, postgres, lent):
        """
        A record whose shape was removed is reported as damaged, and doesn't become an empty one.
        """
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            for turn in range(3):
                await ab(saver).ainvoke({"foo": "x"}, at(f"t{turn}"))
            with postgres.connect(lent) as db:
                db.execute("DELETE FROM shapes")
            with pytest.raises(StorageError, match="record"):
                await ab(saver).aget_state(at("t2"))

    async def test_copies_and_removals(self, postgres, lent):
        """
        Checkpoints without their shapes are copied, cut and backed up as whole ones are.
        """
        async with PostgresSaver(postgres.url, schema=lent) as saver:
            graph = ab(saver)
            for _ in range(3):
                await graph.ainvoke({"foo": "x"}, at())
            await saver.acopy_thread("t", "copy")
            told = [(p.next, p.values) for p in await history(graph, at())]
            copied = [(p.next, p.values) for p in await history(graph, at("copy"))]
            await saver.aprune(["copy"])
            kept = await history(graph, at("copy"))

        assert copied == told
        assert [point.values for point in kept] == [told[0][1]]


OLD = 4
"""The version of the tables that had each record whole."""
MAKE = "CREATE SCHEMA older"
MOVE = (
    *(f"ALTER TABLE newer.{t} DROP COLUMN crc" for t in ("threads", "runs", "blobs", "writes")),
    "INSERT INTO older.threads SELECT * FROM newer.threads",
    "INSERT INTO older.runs SELECT * FROM newer.runs",
    "INSERT INTO older.blobs SELECT * FROM newer.blobs",
    "INSERT INTO older.ranges SELECT * FROM newer.ranges",
    "INSERT INTO older.writes SELECT * FROM newer.writes",
    """INSERT INTO older.checkpoints
    SELECT thread, namespace, seq, id, parent, step, source, run, next, has_interrupts, created,
           metadata, record FROM newer.checkpoints""",
)
"""Give old tables the rows of new ones; what was taken apart is whole in the view."""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
class TestOlderTables:
    @pytest.fixture
    def older(self, postgres):
        """A schema with the tables of that version, empty."""
        with postgres.connect("older") as db:
            db.execute(MAKE)
            db.execute(tables.CREATE_LIST)
            for number, migration in enumerate(tables.MIGRATIONS[:OLD], 1):
                db.execute(migration)
                db.execute(tables.INSERT_VERSION, (number,))
        yield "older"
        postgres.drop("older")
        postgres.drop("newer")

    @pytest.mark.promise("S100")
    async def test_threads_of_the_version_before_go_on(self, postgres, older):
        """
        Opening brings tables of version 4 to this one: their checkpoints read as before, and a run
        goes on behind them.
        """

        async def told(graph):
            return [(p.config, p.values, p.next) for p in await history(graph, at())]

        many = {**at(), "recursion_limit": 100}
        async with PostgresSaver(postgres.url, schema="newer") as saver:
            graph = growing(40, 1, saver)
            await graph.ainvoke({}, many)
            before = await told(graph)
        with postgres.connect(older) as db:
            for statement in MOVE:
                db.execute(statement)

        async with PostgresSaver(postgres.url, schema=older) as saver:
            graph = growing(50, 1, saver)
            found = await told(graph)
            last = await graph.ainvoke({"items": [{"n": -1}]}, many)
            after = await told(graph)
        with postgres.connect(older) as db:
            whole = db.execute("SELECT count(*) FROM points WHERE shape = 0").fetchone()

        assert found == before
        assert len(last["items"]) == 50
        assert after[-len(before) :] == before
        assert len(after) == len(before) + 11
        assert len(before) <= whole[0] < len(after)

    async def test_empty_tables_of_the_version_before(self, postgres, older):
        """
        Tables of version 4 without rows are made anew, and take threads.
        """
        async with PostgresSaver(postgres.url, schema=older) as saver:
            await ab(saver).ainvoke({"foo": "x"}, at())
            points = await history(ab(saver), at())

        assert len(points) == 4
