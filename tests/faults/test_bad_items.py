"""One bad row harms no other client: in each table, by every route, page, job and sweep."""

import os
import random

import pytest

from tests.faults.crashes import report, row
from tests.support.structlog_setup import configured
from tests.web.bad_places import BadPlace

__all__ = ["configured"]

pytestmark = pytest.mark.usefixtures("configured")

PLANTS = int(os.environ.get("ACTORGRAPH_PLANTS", "6"))
"""For each table; the seed chooses which."""
SEED = int(os.environ.get("ACTORGRAPH_SEED", "0")) or random.SystemRandom().randrange(1 << 30)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "jsonl"])
async def test_the_others_answers_are_the_same(kind, tmp_path, request):
    """
    With a damaged, foreign or cut column in any row of one client, every answer about the other
    is the same as without, and no error of the whole saver hides whose row it is.
    """
    server = request.getfixturevalue("postgres") if kind == "postgres" else None
    place, chance = BadPlace(kind, tmp_path, server), random.Random(SEED)
    await place.fill()
    before = await place.asked()
    place.restore()
    again = await place.asked()
    assert again.differences(before) == []

    wrong: list[str] = []
    done = 0
    for database, table in place.tables():
        place.restore()
        every = list(place.plants(database, table))
        assert every, f"nothing is in {table}: fill it, or say in OF_ALL why it has no rows of one"
        for plant, where in chance.sample(every, min(PLANTS, len(every))):
            place.restore()
            if database.plant(plant, where):
                done += 1
                found = (await place.asked()).differences(before)
                wrong += [f"{plant}: {what}" for what in found]
    figures = f"{done} rows of {len(place.tables())} tables, {len(before.answers)} questions each"
    report(request.config, "bad items", row(kind, f"{figures}, {len(wrong)} wrong, {SEED=}"))
    assert wrong == []


READ = ("record", "metadata", "payload", "head", "value")
"""Columns that some question about the bad one reads, and that a checksum or a decoder guards."""
UNREAD = {"runs": "no question reads the claims of ended runs"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_log_names_it(kind, tmp_path, request):
    """
    With garbage in a value of one client, questions and sweeps log whose row it is.
    """
    server = request.getfixturevalue("postgres") if kind == "postgres" else None
    place = BadPlace(kind, tmp_path, server)
    await place.fill()
    before = (await place.asked(_reads)).named()

    silent: list[str] = []
    done = 0
    for database, table in place.tables():
        place.restore()
        for plant, where in place.plants(database, table) if table not in UNREAD else ():
            if plant.column not in READ or plant.form != "garbage" or not plant.summed:
                continue
            place.restore()
            if database.plant(plant, where):
                done += 1
                if not (await place.asked(_reads)).named() - before:
                    silent.append(str(plant))
    report(request.config, "bad items", row(kind, f"{done} rows named, {len(silent)} silent"))
    assert done
    assert silent == []


def _reads(question: str) -> bool:
    """Whether a question changes nothing, or is a sweep."""
    return not question.startswith(("POST", "PUT", "PATCH", "DELETE")) or "search" in question
