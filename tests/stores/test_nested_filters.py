"""Filters by the path of a nested field, the same in every store."""

from datetime import date

import pytest

from actorgraph.stores.errors import ItemValueError

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


class Tensor:
    """A class of another package."""


@pytest.mark.parametrize("value", [Tensor(), date(2026, 1, 1), b"x", float("nan"), {"y": {1}}])
@pytest.mark.parametrize("around", [lambda v: v, lambda v: [v], lambda v: {"$ne": v}])
async def test_a_value_that_no_item_holds_is_refused(store, value, around):
    """
    A filter with a value that can't be put is an error with its path, and not a search that finds
    nothing, or everything.
    """
    await store.aput(("v",), "k", {"x": 1})

    with pytest.raises(ItemValueError, match=r"the filter\['x'\].* which no item holds"):
        await store.asearch(("v",), filter={"x": around(value)})
