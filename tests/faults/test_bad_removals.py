"""Removal of all that one client has, whatever happened to a row of it."""

import random

import anyio
import pytest

from tests.faults.crashes import report, row
from tests.faults.test_bad_items import PLANTS, SEED
from tests.support.structlog_setup import configured
from tests.web.bad_places import BadPlace
from tests.web.bad_removals import Removal

__all__ = ["configured"]

pytestmark = pytest.mark.usefixtures("configured")


LEFT = {
    "memory_vectors.namespace": "a store has no vacuum, and only its item's address leads to it",
    "memory_vectors.key": "as above",
    "memory_items.namespace not UTF-8": "no caller can name it, and a store has no vacuum",
    "memory_items.namespace cut": "as above: it ends with a period",
    "memory_items.key not UTF-8": "as above",
    "thread_index.thread_id garbage": "no route takes an id with a control character",
}
"""Plants whose rows stay, and why."""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_row_is_left(kind, tmp_path, request):
    """
    With a damaged row of one client, requests and a vacuum remove as many rows as without.
    """
    server = request.getfixturevalue("postgres") if kind == "postgres" else None
    place, chance = BadPlace(kind, tmp_path, server), random.Random(SEED)
    anyio.run(place.fill)
    place.park()
    place.restore()
    sound = anyio.run(Removal(place).carry_out)
    assert sound.wrong == []

    wrong: list[str] = []
    done = 0
    for database, table in place.tables():
        place.restore()
        every = [
            one for one in place.plants(database, table) if not str(one[0]).startswith((*LEFT,))
        ]
        for plant, where in chance.sample(every, min(PLANTS, len(every))):
            place.restore()
            if not database.plant(plant, where):
                continue
            done += 1
            found = anyio.run(Removal(place, plant, where).carry_out)
            left = {t: n for t, n in found.counts.items() if n != sound.counts[t]}
            if found.wrong or left:
                wrong.append(f"{plant}: {found.wrong} {left} instead of {sound.counts}")
    report(
        request.config, "bad items", row(kind, f"{done} rows removed, {len(wrong)} left {SEED=}")
    )
    assert wrong == []
