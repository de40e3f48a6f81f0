"""Runs that a system starts because a question of a thread is due."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio

from actorgraph import START, ActorSystem, Interrupt, Runtime, StateGraph, interrupt, sleep
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, at

SHORT = timedelta(milliseconds=20)


@dataclass
class Known:
    """The context of the runs."""

    user: str


def system_of(saver: Any, **graphs: Any) -> ActorSystem:
    """A system of graphs with one node each."""
    made = {
        name: StateGraph(AB, context_schema=Known).add_node("node", node).add_edge(START, "node")
        for name, node in graphs.items()
    }
    return ActorSystem({name: one.compile() for name, one in made.items()}, saver=saver)


async def test_it_has_what_the_run_has_that_asked(saver):
    """
    It has the context, the config, the stream modes and the metadata of the run that asked, and
    says that the clock began it.
    """
    over = anyio.Event()

    async def node(state, config, runtime: Runtime[Known]):
        await sleep(SHORT)
        over.set()
        return {"bar": [runtime.context.user, config["configurable"]["tenant"]]}

    system = system_of(saver, g=node)
    with anyio.fail_after(PATIENCE_S):
        async with system:
            first = await system.start(
                *("g", "t", {"bar": []}),
                context=Known("ada"),
                config={"configurable": {"tenant": "red"}},
                metadata={"for": "ada"},
                stream_mode=["custom"],
            )
            await over.wait()
            (second,) = [r for r in await system.runs(thread_id="t") if r.id != first.id]
            assert await second.wait() == "success"
            state = await system.graphs["g"].aget_state(at("t"))
            arguments = await second.arguments()

    assert state.values["bar"] == ["ada", "red"]
    assert second.metadata == {"for": "ada", "by_clock": True}
    assert arguments.stream_mode == ("custom",)


async def test_a_slow_reminder_holds_no_other_thread_up(saver):
    """
    While the function of one thread's reminder doesn't return, other threads are answered.
    """
    called, let_go, over = anyio.Event(), anyio.Event(), anyio.Event()

    async def tell(question: Interrupt, how_often: int) -> None:
        called.set()
        await let_go.wait()

    async def slow(state):
        interrupt("slow?", remind=[SHORT], escalate=tell)

    async def quick(state):
        await sleep(SHORT)
        over.set()

    with anyio.fail_after(PATIENCE_S):
        async with system_of(saver, slow=slow, quick=quick) as system:
            await system.start("slow", "s", {"bar": []}, context=Known("ada"))
            await called.wait()
            await system.start("quick", "q", {"bar": []}, context=Known("ada"))
            await over.wait()
            let_go.set()


async def test_questions_that_are_due_one_after_the_other(saver):
    """
    Several questions of a thread that are due within a moment are all answered, although runs of
    the thread are open meanwhile.
    """
    due = [timedelta(milliseconds=5 * number) for number in range(1, 9)]
    left = set(range(len(due)))
    over = anyio.Event()

    def asking(number: int) -> Any:
        async def node(state):
            answer = interrupt(number, due=due[number], otherwise=f"own {number}")
            left.discard(number)
            if not left:
                over.set()
            return {"bar": [answer]}

        return node

    builder = StateGraph(AB)
    for number in range(len(due)):
        builder.add_node(str(number), asking(number)).add_edge(START, str(number))
    with anyio.fail_after(PATIENCE_S):
        async with ActorSystem({"g": builder.compile()}, saver=saver) as system:
            await system.start("g", "t", {"bar": []})
            await over.wait()
            for run in await system.runs(thread_id="t"):
                await run.wait()
            state = await system.graphs["g"].aget_state(at("t"))

    assert sorted(state.values["bar"]) == [f"own {number}" for number in range(len(due))]
    assert state.next == ()
