"""What the command says of threads that wait: what their questions do by themselves, and when."""

from datetime import timedelta
from typing import TypedDict

import anyio
import msgspec

from actorgraph import START, InMemorySaver, SqliteSaver, StateGraph, interrupt, sleep
from actorgraph.cli.printed import ThreadList
from actorgraph.cli.thread_lines import decoded, lines_of, store
from actorgraph.codec import Codec
from tests.support.graphs import at

CODEC = Codec(form="json")


class State(TypedDict, total=False):
    said: str


async def asks(_: State) -> State:
    hours = [timedelta(hours=n, minutes=30) for n in (1, 2)]
    return {"said": interrupt("go?", due=hours[1], otherwise="no", remind=hours[:1])}


async def sleeps(_: State) -> State:
    await sleep(timedelta(days=1))
    return {"said": "awake"}


async def waits(_: State) -> State:
    return {"said": interrupt("go?")}


async def ends(_: State) -> State:
    return {"said": "ended"}


async def fill(path: str) -> None:
    """Store a thread of each kind in a file, as an import does: its questions are the same."""
    async with InMemorySaver() as origin, SqliteSaver(path) as saver:
        for node in (asks, sleeps, waits, ends):
            graph = StateGraph(State).add_node(node).add_edge(START, node.__name__)
            compiled = graph.compile(checkpointer=origin)
            await compiled.ainvoke({}, at(node.__name__))
            async for line in lines_of(origin, node.__name__, CODEC):
                read = msgspec.json.decode(msgspec.json.encode(line), type=type(line))
                await store(saver, decoded(read, CODEC))
            before = (await compiled.aget_state(at(node.__name__))).interrupts
            copy = graph.compile(checkpointer=saver)
            after = (await copy.aget_state(at(node.__name__))).interrupts
            assert after == before


class TestThreads:
    def test_waiting_threads_say_what_happens_by_itself(self, call, monkeypatch):
        """
        An imported question has its times; a sleep is not a thread that waits for a person.
        """
        monkeypatch.delenv("ACTORGRAPH_GRAPH")
        anyio.run(fill, "runs.db")

        drawn = call("threads", "--waits").out
        listed = call("threads", "--waits", "--json").json(ThreadList).threads
        (asleep,) = call("threads", "--status", "sleeping", "--json").json(ThreadList).threads

        lines = {line.split()[0]: line for line in drawn.splitlines()[2:]}
        assert {*lines} == {"asks", "sleeps", "waits"}
        assert "answers itself in 2 h" in lines["asks"]
        assert "sleeps until 20" in lines["sleeps"]
        phases = {one.thread_id: one.phase for one in listed}
        assert phases == {"asks": "waiting", "sleeps": "sleeping", "waits": "waiting"}
        assert (asleep.thread_id, asleep.times.sleeps) == ("sleeps", True)
        assert [one.thread_id for one in listed if one.times is None] == ["waits"]

    def test_a_thread_says_it_beside_its_question(self, call, monkeypatch):
        """
        A question is shown with its times below it, a sleep as what it is.
        """
        monkeypatch.delenv("ACTORGRAPH_GRAPH")
        anyio.run(fill, "runs.db")

        asked, shown = call("show", "asks").out, call("show", "sleeps").out

        assert "  go?\n  answers itself in 2 h, reminds in 1 h" in asked
        assert "sleeps sleeps until 20" in shown
        assert "asks" not in shown
        assert "sleeping" in call("history", "sleeps").out
