"""The launches of a system's run: its call is validated once, and each attempt gets a copy."""

import sys
import time
from typing import Any, TypedDict

import pytest

from actorgraph import ActorSystem, MemorySaver, StateGraph
from actorgraph.api.graph.run_setup import RunSetup
from actorgraph.api.system.run_arguments import LaunchMaker, checked_call
from actorgraph.runtime.system.journal import Journal
from actorgraph.values.commands import RunControl

DEADLINE_S = 60.0


class State(TypedDict, total=False):
    text: str


async def work(state: State) -> State:
    return {"text": "done"}


def maker(**options: Any) -> LaunchMaker:
    graph = StateGraph(State).add_node(work).set_entry_point("work").compile()
    call = checked_call("g", "t", {}, options, keeps=False)
    return LaunchMaker(graph, call, Journal(frozenset()), owner=None, control=RunControl())


class TestALaunch:
    """`make_launch`, as a system calls it."""

    async def test_a_run_is_validated_and_set_up_in_one_go(self, monkeypatch):
        """
        A run that is started and begins makes one launch.
        """
        launched: list[object] = []
        launch = RunSetup.make_launch

        def counted(self: Any, *args: Any, **options: Any) -> Any:
            launched.append(self)
            return launch(self, *args, **options)

        monkeypatch.setattr(RunSetup, "make_launch", counted)
        graph = StateGraph(State).add_node(work).set_entry_point("work").compile()
        async with ActorSystem({"g": graph}, saver=MemorySaver()) as system:
            run = await system.start("g", "t", {})
            output = await run.result()

        assert (len(launched), output) == (1, {"text": "done"})

    async def test_a_run_that_a_node_starts_inherits_no_limit_from_it(self):
        """
        The visits that a node's run is limited to don't limit a run that the node starts.
        """
        if "langgraph" in sys.modules:
            pytest.skip("LangGraph's own context variable hands a node's config on")
        seen: dict[str, Any] = {}

        async def inner(state: State, config: Any) -> State:
            seen["inner"] = config.get("node_visit_limit")
            return {}

        async def outer(state: State, config: Any) -> State:
            seen["outer"] = config.get("node_visit_limit")
            await (await system.start("inner", "below", {})).result()
            return {}

        graphs = {
            "inner": StateGraph(State).add_node("n", inner).set_entry_point("n").compile(),
            "outer": StateGraph(State).add_node("n", outer).set_entry_point("n").compile(),
        }
        async with ActorSystem(graphs, saver=MemorySaver()) as system:
            await (
                await system.start("outer", "above", {}, config={"node_visit_limit": 7})
            ).result()

        assert seen == {"outer": 7, "inner": None}


class TestAnAttempt:
    """`LaunchMaker.make`."""

    def test_a_deadline_counts_from_the_beginning_of_an_attempt(self):
        """
        The time that a run has waited is not taken off its deadline.
        """
        launches = maker(deadline_s=DEADLINE_S)
        launches.first()

        began = time.monotonic()
        deadline = launches.make(b"r").stopping.deadline

        assert deadline is not None
        assert deadline >= began + DEADLINE_S

    def test_each_attempt_has_its_own_context(self):
        """
        Context variables that one attempt sets are not set in the next.
        """
        launches = maker()

        first, second = launches.make(b"r"), launches.make(b"r")

        assert first.context is not second.context
        assert first.stopping.control is second.stopping.control

    def test_a_bad_call_is_refused_each_time(self):
        """
        A launch that could not be made is tried again, with the same error.
        """
        launches = maker(interrupt_before=["nowhere"])

        for _ in range(2):
            with pytest.raises(Exception, match="nowhere"):
                launches.make(b"r")
