"""Values that must not be stored are in no byte of any file or table, in any kind of run."""

import threading
from typing import Annotated, Any
from uuid import uuid4

import pytest
from typing_extensions import TypedDict

from actorgraph import START, CachePolicy, Codec, InMemoryCache, Send, StateGraph
from actorgraph.channels import UntrackedValue
from tests.support.canaries import (
    FORMS,
    KEPT,
    State,
    found,
    graph_of,
    inputs,
    run_all,
    run_in_system,
)
from tests.support.graphs import at

MODES = ["sync", "async", "exit"]


@pytest.fixture
def word():
    return f"canary-{uuid4().hex}"


@pytest.mark.one_loop
@pytest.mark.langgraph("F-B6", "F-E31")
@pytest.mark.every_saver
@pytest.mark.every_loop("sqlite-memory")
@pytest.mark.parametrize("mode", MODES)
async def test_an_untracked_value_is_in_no_byte(store, word, mode, tmp_path_factory):
    """
    In inputs, updates, Sends, graphs inside, pending tasks, caches, audit logs; the rest is there.
    """
    folder = tmp_path_factory.mktemp("beside")
    given = inputs(word)[MODES.index(mode) :: len(MODES)]  # all of them in tests/faults
    await run_all(store, folder, word, mode, given)

    assert found(store, folder, word, KEPT) == [KEPT]


@pytest.mark.langgraph("F-E31")
@pytest.mark.every_saver
@pytest.mark.every_loop("sqlite-memory")
async def test_a_stored_stream_has_no_untracked_value(saver, store, word, tmp_path):
    """
    Events of every mode of a resumable run, and the call that another process would begin.
    """
    events = await run_in_system(saver, word)
    if not store.on_disk:
        await saver.abackup(tmp_path / "backup.db")

    assert word not in repr(events)
    assert {event.kind for event in events} >= {"values", "updates", "tasks", "debug"}
    assert found(store, tmp_path, word, KEPT) == [KEPT]


@pytest.mark.every_saver
@pytest.mark.parametrize("store", ["sqlite", "jsonl", "postgres"], indirect=True)
async def test_under_encryption_nothing_is_readable(store, word, tmp_path):
    """
    Values, writes and inputs, in every mode; numbers too, which otherwise are in the record.
    """
    number = 471100000 + hash(word) % 99999
    saver = store.saver()
    saver.codec = Codec(keys={"k": b"k" * 32}).in_form(
        "json" if store.kind == "jsonl" else "msgpack"
    )
    async with saver:
        schema: Any = TypedDict("Secret", {"text": str, "number": int})
        builder = StateGraph(schema).add_node("n", lambda state: {"text": word, "number": number})
        graph = builder.add_edge(START, "n").compile(checkpointer=saver)
        for mode in MODES:
            await graph.ainvoke({"text": word, "number": number}, at(mode), durability=mode)
            assert (await graph.aget_state(at(mode))).values["number"] == number

    assert found(store, tmp_path, word, str(number)) == []


@pytest.mark.langgraph("F-B6")
@pytest.mark.every_saver
@pytest.mark.every_loop("sqlite-memory")
@pytest.mark.parametrize("mode", MODES)
async def test_values_that_cannot_be_stored_may_be_untracked(saver, mode):
    """
    A lock that a node shares with the next one, in every mode; `get_state` doesn't have it.
    """
    lock = threading.Lock()
    builder = StateGraph(State).add_node("makes", lambda state: {"word": lock})
    builder.add_node("uses", lambda state: {"text": str(state["word"] is lock)})
    builder.add_edge(START, "makes").add_edge("makes", "uses")
    graph = builder.compile(checkpointer=saver)

    result = await graph.ainvoke({"text": ""}, at(), durability=mode)
    assert result == {"text": "True", "word": lock}
    assert (await graph.aget_state(at())).values == {"text": "True"}


@pytest.mark.langgraph("F-B6")
@pytest.mark.every_saver
@pytest.mark.every_loop("sqlite-memory")
async def test_a_finished_task_counts_without_its_untracked_writes(saver, store):
    """
    After a failure beside it, it isn't run again, and what it wrote for the run's life is gone.
    """
    ran: list[str] = []

    def writes(state):
        ran.append("writes")
        return {"word": threading.Lock()}

    def fails(state):
        ran.append("fails")
        if ran.count("fails") == 1:
            raise ConnectionError
        return {"text": "went on"}

    builder = StateGraph(State).add_node("a", writes).add_node("b", fails)
    builder.add_node("looks", lambda state: {"text": f"{state['text']} {'word' in state}"})
    for name in ("a", "b"):
        builder.add_edge(START, name)
    graph = builder.add_edge(["a", "b"], "looks").compile(checkpointer=saver)

    with pytest.raises(ConnectionError):  # one after the other, so that the first has finished
        await graph.ainvoke({"text": ""}, {**at(), "max_concurrency": 1})
    assert await graph.ainvoke(None, at()) == {"text": "went on False"}
    assert sorted(ran) == ["fails", "fails", "writes"]


@pytest.mark.langgraph("F-B6")
@pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)
@pytest.mark.parametrize("form", FORMS)
async def test_a_send_is_repeated_without_it(saver, form):
    """
    The node gets the same object, with that field at its default; a dict without the key.
    """
    given: list[Any] = []

    def sent(arg):
        given.append(arg)
        if len(given) == 1:
            raise ConnectionError
        return {"text": "done"}

    builder = StateGraph(State).add_node("sent", sent)
    sends = [Send("sent", form(text="kept", word="secret"))]
    builder.add_conditional_edges(START, lambda state: sends, ["sent"])
    graph = builder.compile(checkpointer=saver)

    with pytest.raises(ConnectionError):
        await graph.ainvoke({"text": ""}, at())
    await graph.ainvoke(None, at())
    first, again = given
    assert first == form(text="kept", word="secret")
    assert type(again) is type(first)
    assert "secret" not in repr(again)
    assert "kept" in repr(again)


async def test_a_result_with_an_untracked_value_is_not_cached():
    """
    The next run has what the node made: it is called again.
    """
    ran: list[int] = []

    def makes(state):
        ran.append(1)
        return {"word": "secret"}

    cache = InMemoryCache()
    builder = StateGraph(State).add_node("makes", makes, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "makes").compile(cache=cache)
    results = [await graph.ainvoke({"text": ""}) for _ in range(2)]

    assert [result["word"] for result in results] == ["secret", "secret"]
    assert len(ran) == 2


@pytest.mark.filterwarnings("ignore::actorgraph.errors.LostPauseWarning")
@pytest.mark.langgraph("F-B6")
async def test_live_readers_see_it(word):
    """
    A stream that is not stored shows the values of the run as they are.
    """
    graph = graph_of(word)
    chunks = [c async for c in graph.astream({"text": ""}, stream_mode=["values", "updates"])]

    assert word in repr(chunks)


class Guarded(TypedDict):
    text: Annotated[str, UntrackedValue]


@pytest.mark.every_saver
@pytest.mark.every_loop("sqlite-memory")
async def test_an_update_from_outside_lives_for_nothing(saver, store, word, tmp_path):
    """
    An update to such a channel alone makes a checkpoint without it.
    """
    builder = StateGraph(Guarded).add_node("n", lambda state: {}).add_edge(START, "n")
    graph = builder.compile(checkpointer=saver)
    await graph.aupdate_state(at(), {"text": word})

    assert (await graph.aget_state(at())).values == {}
    if store.on_disk:
        assert found(store, tmp_path, word) == []
