"""The suite that third parties run on their stores, on each of ours and on LangGraph's."""

import inspect

import pytest
from langgraph.store.memory import InMemoryStore as TheirStore

from actorgraph import testing
from actorgraph.stores import BaseStore, InMemoryStore, PutOp, SearchOp
from actorgraph.testing.store_checks import store_checks
from tests.stores.theirs import their_op

EVERY = store_checks()
CONTRACT = store_checks("contract")


@pytest.mark.promise("S180", "S181")
@pytest.mark.langgraph("F-I1", "F-I2", "F-I3", "F-I4", "F-I5", "L104")
@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.__name__)
async def test_every_store_passes(check, store):
    """
    Items, searches, filters, namespaces, batches, exact values, expiry: the same everywhere.
    """
    await check(store)


class Theirs(BaseStore):
    """LangGraph's store, which wants operations of its own classes."""

    def __init__(self) -> None:
        self._inner = TheirStore()

    def batch(self, ops):
        return self._inner.batch([their_op(op) for op in ops])

    async def abatch(self, ops):
        return self.batch(ops)


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_langgraphs_store_keeps_the_contract(check):
    """
    LangGraph's own store passes the suite's contract.
    """
    await check(Theirs())


async def test_langgraphs_operations_are_understood(store):
    """
    A batch may have operations of LangGraph's classes.
    """
    results = await store.abatch([their_op(PutOp(("a",), "k", {})), their_op(SearchOp(("a",)))])

    assert results == [None, []]
    assert (await store.aget(("a",), "k")).value == {}


class Least(BaseStore):
    """A store that has the two methods, over one of ours."""

    def __init__(self) -> None:
        self._inner = InMemoryStore()

    def batch(self, ops):
        return self._inner.batch(ops)

    async def abatch(self, ops):
        return await self._inner.abatch(ops)


@pytest.mark.langgraph("F-I1")
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_two_methods_make_a_store(check):
    """
    A subclass of BaseStore with `batch` and `abatch` has all the others.
    """
    await check(Least())


class Sharing(BaseStore):
    """A store that hands out what it holds."""

    def __init__(self) -> None:
        self._inner, self._held = InMemoryStore(), {}

    def batch(self, ops):
        ops = list(ops)
        results = self._inner.batch(ops)
        for op, item in zip(ops, results, strict=True):
            if hasattr(op, "ttl"):
                self._held[op.namespace, op.key] = op.value
            elif hasattr(item, "value"):
                item.value = self._held[op.namespace, op.key]
        return results

    async def abatch(self, ops):
        return self.batch(ops)


async def test_a_store_that_shares_its_values_fails():
    """
    The suite sees a store whose caller can change what is stored.
    """
    (check,) = [c for c in EVERY if c.__name__ == "nothing_is_shared_with_the_caller"]

    with pytest.raises(AssertionError):
        await check(Sharing())


def test_every_check_says_what_it_checks():
    """
    Each is documented, and they are part of `actorgraph.testing`.
    """
    assert all(inspect.getdoc(check) for check in EVERY)
    assert testing.store_checks is store_checks
