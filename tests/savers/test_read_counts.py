"""How often a call asks its saver, and sets its run up."""

from random import Random
from typing import Any, TypedDict

import pytest

from actorgraph import END, START, StateGraph
from actorgraph.api.graph.run_setup import RunSetup
from actorgraph.codec import Codec

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


class State(TypedDict, total=False):
    text: str


async def node(state: State) -> State:
    return {"text": "written"}


def graph(saver: Any) -> Any:
    builder = StateGraph(State).add_node("node", node)
    return builder.add_edge(START, "node").add_edge("node", END).compile(checkpointer=saver)


CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Counted:
    """The queries that a saver has answered, one entry for each."""

    def __init__(self, saver: Any, monkeypatch: Any) -> None:
        self.asked: list[Any] = []
        for name in ("query", "query_now"):
            if hasattr(saver, name):
                monkeypatch.setattr(saver, name, self.counting(getattr(saver, name)))

    def counting(self, query: Any) -> Any:
        def counted(queries: Any) -> Any:
            self.asked.extend(queries)
            return query(queries)

        return counted


async def test_a_state_is_read_with_one_query(saver, monkeypatch):
    """
    The state of a thread, and that of one checkpoint, take one query each, with all they show.
    """
    compiled = graph(saver)
    await compiled.ainvoke({"text": "given"}, CONFIG)
    counted = Counted(saver, monkeypatch)

    newest = await compiled.aget_state(CONFIG)
    assert (len(counted.asked), newest.metadata["writes"]) == (1, {"node": {"text": "written"}})

    again = await compiled.aget_state(newest.config)
    first = await compiled.aget_state(newest.parent_config)
    assert len(counted.asked) == 3
    assert (again, first.tasks[0].result) == (newest, {"text": "written"})


async def test_a_stream_sets_its_run_up_once(saver, monkeypatch):
    """
    `astream` checks its arguments and makes its run in one go.
    """
    launched: list[object] = []
    launch = RunSetup.make_launch

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        launched.append(self)
        return launch(self, *args, **options)

    monkeypatch.setattr(RunSetup, "make_launch", counted)
    chunks = [c async for c in graph(saver).astream({"text": "given"}, CONFIG)]

    assert (len(launched), chunks) == (1, [{"node": {"text": "written"}}])


LARGE = Random(1).randbytes(100_000).hex()  # large after compression, too


class Large(TypedDict, total=False):
    text: str
    other: int


async def enlarge(state: Large) -> Large:
    return {"text": LARGE}


async def ends(state: Large) -> Large:
    return {"other": 1}


def decodings(monkeypatch: Any) -> list[int]:
    """The sizes of all large payloads that are decoded from now on."""
    found: list[int] = []
    decode = Codec.decode

    def counted(self: Codec, payload: bytes, *where: Any) -> Any:
        if len(payload) >= 100_000:
            found.append(len(payload))
        return decode(self, payload, *where)

    monkeypatch.setattr(Codec, "decode", counted)
    return found


async def test_large_writes_are_decoded_for_who_looks(saver, monkeypatch):
    """
    A state with a large value decodes it once, and the write that it was when its metadata is
    looked at; in a history each checkpoint decodes what it shows.
    """
    builder = StateGraph(Large).add_node("enlarge", enlarge).add_node("ends", ends)
    builder.add_edge(START, "enlarge").add_edge("enlarge", "ends").add_edge("ends", END)
    compiled: Any = builder.compile(checkpointer=saver)
    await compiled.ainvoke({"other": 0}, CONFIG)
    newest = await compiled.aget_state(CONFIG)
    found = decodings(monkeypatch)

    state = await compiled.aget_state(newest.parent_config)
    assert (len(found), len(state.values["text"]), state.next) == (1, len(LARGE), ("ends",))
    assert state.metadata["writes"] == {"enlarge": {"text": LARGE}}
    assert (len(found), state.metadata["step"]) == (2, 1)

    found.clear()
    states = [s async for s in compiled.aget_state_history(CONFIG)]
    assert len(found) == 3  # the values at the two last steps, and the result of the task
    assert states[1] == state
    assert [s.metadata["writes"] for s in states[1:3]] == [{"enlarge": {"text": LARGE}}, None]
