"""One bad row harms no other client of a database: by every command."""

import random

import anyio
import pytest

from tests.faults.crashes import report, row
from tests.faults.test_bad_items import PLANTS, SEED
from tests.support.structlog_setup import configured
from tests.web.bad_commands import Commands, differences, not_asked
from tests.web.bad_places import BadPlace
from tests.web.planted_rows import BAD

__all__ = ["configured"]

pytestmark = pytest.mark.usefixtures("configured")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_others_answers_are_the_same(kind, tmp_path, request):
    """
    With a damaged row of one client every command says the same about the other, and one about
    all threads that fails names whose row it is.
    """
    server = request.getfixturevalue("postgres") if kind == "postgres" else None
    place, chance = BadPlace(kind, tmp_path, server), random.Random(SEED)
    anyio.run(place.fill)
    place.park()
    commands = Commands(place, tmp_path, set(map(str, place.made[BAD].values())))
    before = commands.everything()
    place.restore()
    assert differences(commands.everything(), before, commands) == []

    wrong: list[str] = []
    done = 0
    saver = place.databases[0]
    tables = [table for database, table in place.tables() if database is saver]
    for table in tables:
        place.restore()
        every = list(place.plants(saver, table))
        for plant, where in chance.sample(every, min(max(1, PLANTS // 2), len(every))):
            place.restore()
            if saver.plant(plant, where):
                done += 1
                found = differences(commands.everything(), before, commands)
                wrong += [f"{plant}: {what}" for what in found]
    figures = f"{done} rows of {len(tables)} tables, {len(before)} commands each"
    report(request.config, "bad items", row(kind, f"{figures}, {len(wrong)} wrong, {SEED=}"))
    assert wrong == []


def test_each_command_is_asked():
    """
    Each command of the program is asked about the others, or there is a reason why not.
    """
    assert not_asked() == set()
