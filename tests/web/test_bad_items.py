"""A sample of the damage that one client's rows may have; all of it is in the fault tests."""

import pytest

from tests.support.structlog_setup import configured
from tests.web.bad_places import BadPlace
from tests.web.planted_rows import OF_ALL

__all__ = ["configured"]

pytestmark = [pytest.mark.usefixtures("configured"), pytest.mark.one_loop]

SAMPLE = [("checkpoints", "record"), ("system_runs", "payload"), ("memory_items", "value")]


def is_a_list(question):
    """Whether many things are asked for at once."""
    return question.endswith("search") or question in ("page /threads", "page /runs", "recover")


async def test_lists_have_the_others(tmp_path):
    """
    Lists and pages have all of one client's, whatever happened to rows of another.
    """
    place = BadPlace("sqlite", tmp_path)
    await place.fill()
    before = await place.asked(is_a_list)
    for table, column in SAMPLE:
        place.restore()
        (database,) = (one for one, name in place.tables() if name == table)
        plant, row = next(p for p in place.plants(database, table) if p[0].column == column)
        assert database.plant(plant, row)

        found = await place.asked(is_a_list)
        assert found.differences(before) == [], str(plant)


async def test_each_table_has_rows_to_damage(tmp_path):
    """
    Each table of the databases has rows of the damaged client, or a reason why not.
    """
    place = BadPlace("sqlite", tmp_path)
    await place.fill()

    assert [table for one, table in place.tables() if not any(place.plants(one, table))] == []
    assert all(OF_ALL.values())
