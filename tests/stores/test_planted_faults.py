"""Faults planted in a store that works: the shipped checks find each of them."""

import pytest

from actorgraph.stores import BaseStore, GetOp, ListNamespacesOp, PutOp, SearchOp
from actorgraph.testing.store_checks import store_checks

CHECKS = {check.__name__: check for check in store_checks()}


class Faulty(BaseStore):
    """A store that changes each operation before it is carried out."""

    supports_ttl = True

    def __init__(self, inner, change):
        self.inner, self.change = inner, change

    def batch(self, ops):
        return self.inner.batch([self.change(op) for op in ops])

    async def abatch(self, ops):
        return await self.inner.abatch([self.change(op) for op in ops])


def ignored(kind, **fields):
    """A change of fields of one kind of operation."""

    def change(op):
        if not isinstance(op, kind):
            return op
        return kind(**{name: getattr(op, name) for name in FIELDS[kind]} | fields)

    return change


FIELDS = {
    GetOp: ("namespace", "key", "refresh_ttl"),
    PutOp: ("namespace", "key", "value", "index", "ttl"),
    SearchOp: ("namespace_prefix", "filter", "limit", "offset", "query", "refresh_ttl"),
    ListNamespacesOp: ("match_conditions", "max_depth", "limit", "offset"),
}

FAULTS = {
    "values": (ignored(PutOp, value={"x": 0}), "items_are_found_where_they_were_put"),
    "namespaces": (ignored(PutOp, namespace=("a",)), "items_are_found_where_they_were_put"),
    "keys": (ignored(PutOp, key="k"), "pages_are_disjoint_and_complete"),
    "deletions": (
        lambda op: GetOp(op.namespace, op.key) if isinstance(op, PutOp) and not op.value else op,
        "deleted_items_are_gone",
    ),
    "ttl": (ignored(PutOp, ttl=None), "expired_items_are_gone"),
    "prefixes": (ignored(SearchOp, namespace_prefix=()), "searches_match_whole_labels"),
    "filters": (ignored(SearchOp, filter=None), "filters_compare_fields"),
    "limits": (ignored(SearchOp, limit=99), "pages_are_disjoint_and_complete"),
    "offsets": (ignored(SearchOp, offset=0), "pages_are_disjoint_and_complete"),
    "conditions": (ignored(ListNamespacesOp, match_conditions=()), "namespaces_are_listed"),
    "depths": (ignored(ListNamespacesOp, max_depth=None), "namespaces_are_listed"),
    "limits of namespaces": (ignored(ListNamespacesOp, limit=99), "namespaces_are_listed"),
    "offsets of namespaces": (ignored(ListNamespacesOp, offset=0), "namespaces_are_listed"),
}
"""Name -> what is changed, and the check that finds it."""


@pytest.mark.first_case
@pytest.mark.parametrize("name", FAULTS)
async def test_a_check_finds_it(store, name):
    """
    A store that leaves out one part of the contract fails the check of that part.
    """
    change, check = FAULTS[name]

    with pytest.raises((AssertionError, TypeError, ValueError)):
        await CHECKS[check](Faulty(store, change))


@pytest.mark.first_case
@pytest.mark.parametrize("check", store_checks("contract"), ids=lambda check: check.__name__)
async def test_without_a_fault_it_passes(store, check):
    """
    A wrapper that only copies each operation passes: what the checks find is the fault.
    """

    def copied(op):
        return ignored(type(op))(op)

    await check(Faulty(store, copied))
