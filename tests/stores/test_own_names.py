"""Stores of programs: helpers with names of their own take no place of the base's."""

import pytest

from actorgraph.stores import AsyncBatchedBaseStore, BaseStore, InMemoryStore

NAMES = ("_put", "_get", "_one", "_aone", "_refreshes", "_loop", "_batcher", "_carry_out_once")


def refuse(*_, **__):
    """A helper of the program that the base must not call."""
    raise AssertionError("the helper of the program was called")


@pytest.mark.parametrize("base", [BaseStore, AsyncBatchedBaseStore], ids=lambda b: b.__name__)
@pytest.mark.parametrize("name", NAMES)
async def test_helpers_keep_their_names(base, name):
    """
    A subclass may name its helpers and attributes as it likes: the base's methods still work.
    """
    inner = InMemoryStore()

    class Own(base):
        def batch(self, ops):
            return inner.batch(ops)

        async def abatch(self, ops):
            return await inner.abatch(ops)

    kind = type("Mine", (Own,), {name: refuse})
    store = kind()

    await store.aput(("a",), "k", {"x": 1})
    assert (await store.aget(("a",), "k")).value == {"x": 1}
    assert len(await store.asearch(("a",))) == 1
    assert await store.alist_namespaces() == [("a",)]
    await store.adelete(("a",), "k")
    assert inner.get(("a",), "k") is None


@pytest.mark.parametrize("name", ["_loop", "_batcher"])
async def test_attributes_keep_their_names(name):
    """
    An attribute that a subclass sets takes no place of one of the base's.
    """
    inner = InMemoryStore()

    class Mine(AsyncBatchedBaseStore):
        def batch(self, ops):
            return inner.batch(ops)

        async def abatch(self, ops):
            return await inner.abatch(ops)

    store = Mine()
    setattr(store, name, "the program's")

    await store.aput(("a",), "k", {"x": 1})
    assert (await store.aget(("a",), "k")).value == {"x": 1}
