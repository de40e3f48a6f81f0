"""What a chat of 400 turns takes in PostgreSQL, with plain vacuums as autovacuum does them."""

from tests.faults.crashes import report, row
from tests.savers.test_postgres_space import SIZES, chat

TURNS, VACUUM_EVERY = 400, 50


async def test_a_chat_of_four_hundred_turns(postgres, schema, request, anyio_backend):
    """
    400 turns take at most six times the bytes of the last state, all tables and indexes and free
    space maps counted, with a plain VACUUM every 50 turns. Promise: C1.
    """
    from actorgraph import PostgresSaver

    async with PostgresSaver(postgres.url, schema=schema):
        pass
    with postgres.connect(schema) as db:

        def vacuum(turn: int) -> None:
            if turn % VACUUM_EVERY == VACUUM_EVERY - 1:
                db.execute("VACUUM")

        state = await chat(postgres.url, schema, TURNS, vacuum)
        (taken,) = db.execute(SIZES, ("%",)).fetchone()

    figure = f"{taken:,} bytes, {taken / state:.2f} x state"
    report(request.config, "many at once", row("a chat of 400 turns", anyio_backend, figure))
    assert taken <= 6 * state
