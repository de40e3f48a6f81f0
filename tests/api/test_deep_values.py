"""Values that are nested deeper than the interpreter's stack: refused by errors of the library."""

from typing import Any, TypedDict

import anyio
import pytest

from actorgraph import START, ActorSystem, InMemorySaver, StateGraph
from actorgraph.codec.records import JSON_LEVELS_MAX
from actorgraph.errors import ActorGraphError
from actorgraph.stores import InMemoryStore, SqliteStore

LEVELS = 3000


class State(TypedDict, total=False):
    """Any value."""

    value: Any


def nested(kind: str, levels: int = LEVELS) -> Any:
    """A value of many levels of one kind."""
    made: Any = 0
    for _ in range(levels):
        made = {"list": [made], "dict": {"a": made}, "tuple": (made,)}[kind]
    return made


AT: Any = {"configurable": {"thread_id": "t"}}


class Ways:
    """The ways in which a value comes to a graph, a system or a store."""

    def __init__(self) -> None:
        plain = StateGraph(State).add_node("node", lambda _: {}).add_edge(START, "node")
        self.graph = plain.compile(checkpointer=InMemorySaver())

    async def input(self, value: Any) -> None:
        await self.graph.ainvoke({"value": value}, AT)

    async def update(self, value: Any) -> None:
        await self.graph.aupdate_state(AT, {"value": value})

    async def metadata(self, value: Any) -> None:
        await self.graph.ainvoke({}, {**AT, "metadata": {"m": value}})

    async def history(self, value: Any) -> None:
        await self.graph.ainvoke({}, {**AT, "metadata": {"m": 1}})
        _ = [one async for one in self.graph.aget_state_history(AT, filter={"m": value})]

    async def run_input(self, value: Any) -> None:
        await self._start({"value": value})

    async def run_metadata(self, value: Any) -> None:
        await self._start({}, metadata={"m": value})

    async def _start(self, given: Any, **options: Any) -> None:
        async with ActorSystem({"g": self.graph}, saver=InMemorySaver()) as system:
            await (await system.start("g", "t", given, **options)).result()

    async def search(self, value: Any) -> None:
        async with ActorSystem({"g": self.graph}, saver=InMemorySaver()) as system:
            await system.threads(values={"value": value})

    async def item(self, value: Any) -> None:
        InMemoryStore().put(("n",), "k", {"value": value})

    async def item_filter(self, value: Any) -> None:
        InMemoryStore().search(("n",), filter={"value": value})

    async def sqlite_filter(self, value: Any) -> None:
        with SqliteStore(":memory:") as store:
            await anyio.to_thread.run_sync(
                lambda: store.search(("n",), filter={"value": {"$eq": value}})
            )


WAYS = [name for name in vars(Ways) if not name.startswith("_")]


@pytest.mark.parametrize("kind", ["list", "dict", "tuple"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_deep_value_is_refused_by_an_error_of_the_library(way: str, kind: str):
    """
    No RecursionError comes out, whichever way the value goes in; the error is short.
    """
    value = nested(kind)

    with pytest.raises(ActorGraphError) as caught:
        await getattr(Ways(), way)(value)

    assert not isinstance(caught.value, RecursionError)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize("way", ["metadata", "run_metadata"])
async def test_all_interpreters_take_the_same_number_of_levels(way: str, kind: str):
    """
    Metadata, with the dict around them, may have as many levels as a value of the state.
    """
    await getattr(Ways(), way)(nested(kind, JSON_LEVELS_MAX - 1))

    with pytest.raises(ActorGraphError, match="nested too deeply"):
        await getattr(Ways(), way)(nested(kind, JSON_LEVELS_MAX))
