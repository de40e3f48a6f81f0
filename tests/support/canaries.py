"""A program with a canary word in everything that must not be stored, and the search for it."""

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel
from typing_extensions import TypedDict

from actorgraph import (
    START,
    ActorSystem,
    AuditedSaver,
    AuditLog,
    CachePolicy,
    Command,
    Send,
    SqliteCache,
    StateGraph,
    interrupt,
)
from actorgraph.channels import UntrackedValue
from actorgraph.values.policies import STREAM_MODES
from tests.support.graphs import at
from tests.support.stored_bytes import bytes_of

KEPT = "kept-by-the-state"
"""A stored word: the search would find it."""


@dataclasses.dataclass(frozen=True)
class Frozen:
    text: str
    word: Any


@dataclasses.dataclass
class Plain:
    text: str = ""
    word: Any = "none"


class Model(BaseModel):
    text: str = ""
    word: Any = None


class Struct(msgspec.Struct, frozen=True):
    text: str
    word: Any = None


class State(TypedDict, total=False):
    """`word` is never stored, `text` is; `shape` names what else may be."""

    text: str
    word: Annotated[Any, UntrackedValue(guard=False)]
    shape: Frozen | Plain | Model | Struct


FORMS = (dict, Frozen, Plain, Model, Struct)
"""The content of a Send or an input."""


def inputs(word: str) -> list[Any]:
    """The word in each form of an input."""
    objects = [form(text=KEPT, word=word) for form in FORMS]
    pairs = [("text", KEPT), ("word", word)]
    return [*objects, pairs, Command(update={"text": KEPT, "word": word}, goto="first")]


def inner(word: str) -> Any:
    """A graph inside, whose channel has another name."""
    schema: Any = TypedDict("Inner", {"text": str, "hidden": Annotated[Any, UntrackedValue]})
    builder = StateGraph(schema).add_node("in", lambda state: {"hidden": word, "text": KEPT})
    builder.add_node("after", lambda state: {"text": KEPT}).add_edge(START, "in")
    return builder.add_edge("in", "after").compile()


def graph_of(word: str, **options: Any) -> Any:
    """Nodes that write the word in every way, beside one that asks: all are left in the ledger."""
    context = {"__type": "tool_call_with_context", "tool_call": {}, "state": {"word": word}}

    def first(state: Any) -> Any:
        sends = [Send("sent", form(text=KEPT, word=word)) for form in FORMS]
        return Command(update={"word": word}, goto=[*sends, Send("sent", context), "second"])

    def asks(state: Any) -> Any:
        interrupt("go on?")

    builder = StateGraph(State).add_node("first", first, destinations=("sent", "second"))
    builder.add_node("sent", lambda given: {"word": word})
    builder.add_node("second", lambda state: {"word": word, "text": KEPT})
    builder.add_node("asks", asks).add_node("inside", inner(word))
    builder.add_node("cached", lambda state: {"word": word}, cache_policy=CachePolicy())
    for name in ("asks", "inside", "cached"):
        builder.add_edge("second", name)
    return builder.add_edge(START, "first").compile(**options)


async def run_all(store: Any, folder: Path, word: str, mode: Any, given: list[Any]) -> None:
    """Run it with each input, leave it in its middle, change it from outside, and go on.

    Data that the store keeps outside of files is copied to one.
    """
    with SqliteCache(folder / "cache.db") as cache, closing(AuditLog(folder / "audit.log")) as log:
        async with AuditedSaver(store.saver(), log) as saver:
            for number, one in enumerate(given):
                config = at(f"{mode}-{number}", password=f"{word}-configured")
                graph = graph_of(word, checkpointer=saver, cache=cache)
                await graph.ainvoke(one, config, durability=mode)
                await graph.aupdate_state(config, {"word": word}, as_node="second")
                await graph.ainvoke(None, config, durability=mode)
                await graph.ainvoke(Command(resume=1), config, durability=mode)
                assert (await graph.aget_state(config)).next == ()
            if not store.on_disk:
                await saver.abackup(folder / "backup.db")


async def run_in_system(saver: Any, word: str) -> list[Any]:
    """A run whose events of every mode are stored; returns what its readers get."""
    async with ActorSystem({"g": graph_of(word)}, saver=saver) as system:
        modes = [mode for mode in STREAM_MODES if mode != "tools"]
        given = {"text": KEPT, "word": word}
        run = await system.start(
            "g", "system", given, stream_mode=modes, subgraphs=True, resumable=True
        )
        await run.result()
        events = [event async for event in run.events()]
        await (await system.resume("g", "system", 1, resumable=True)).result()
        return events


def found(store: Any, folder: Path, *words: str) -> list[str]:
    """Those of the words that are in the bytes of a store, or of another folder's files."""
    files = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    text = b"".join([bytes_of(store), *files])
    return [word for word in words if word.encode() in text]
