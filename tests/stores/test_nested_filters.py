"""Filters by the path of a nested field, the same in every store."""

import pytest

VALUES = {
    "nested": {"user": {"age": 3, "name": {"first": "ada"}}},
    "flat": {"user.age": 3, "user": {"age": 4}},
    "other": {"user": "age"},
}


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"user.age": 3}, {"nested", "flat"}),
        ({"user.age": {"$gt": 3}}, set()),
        ({"user.age": 4}, set()),
        ({"user.name.first": "ada"}, {"nested"}),
        ({"user": {"name.first": "ada"}}, {"nested"}),
        ({"user.age": None}, {"other"}),
        ({"user.name.first": {"$ne": "ada"}}, {"flat", "other"}),
        ({"user.": None}, {"nested", "flat", "other"}),
    ],
)
async def test_a_name_with_periods_leads_to_a_nested_field(store, wanted, keys):
    """
    Unless a field has that very name, which wins; a path that leads nowhere counts as None.
    """
    for key, value in VALUES.items():
        await store.aput(("v",), key, value)

    found = await store.asearch(("v",), filter=wanted)

    assert {item.key for item in found} == keys
