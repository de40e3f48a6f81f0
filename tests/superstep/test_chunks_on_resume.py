"""Chunks about Sends, breakpoints at the end, and work that an earlier run did."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.superstep.snapshot import snapshot
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import END, START
from tests.superstep.script import Script, chain, graph, idle


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def fan() -> Any:
    """`z` and `a`, defined in this order, run in one superstep."""
    return graph(State, {"z": idle, "a": idle}, [(START, "z"), (START, "a"), ("a", END)])


class TestNext:
    @pytest.mark.langgraph("F-C4", "L26")
    def test_sends_come_before_nodes(self):
        """
        A snapshot lists pending Sends by their index, then nodes as the graph defines them.
        """
        plan = graph(State, {"z": idle, "a": idle, "s": idle}, [(START, "s"), ("s", "a")])
        run = Script(plan)
        run.begin({"log": []})
        run.saved()
        run.finish("s", Command(goto=["z", Send("a", {}), Send("z", {})]))
        run.saved()
        restored = run.store.restored()
        assert restored is not None
        shown = snapshot(plan, restored, "t", live=True)

        assert shown.next == ("a", "z", "z", "a")
        assert [task.name for task in shown.tasks] == ["a", "z", "z", "a"]


class TestBreakpoints:
    @pytest.mark.langgraph("L63")
    def test_a_breakpoint_after_the_last_node_is_reported(self):
        """
        `interrupt_after` a node that nothing follows is streamed, and the run ends.
        """
        run = Script(chain(State, "a"), interrupt_after=("a",), modes=frozenset({"updates"}))
        run.play({"log": []})

        assert run.streamed("updates")[-1] == {"__interrupt__": ()}
        assert type(run.outcome).__name__ == "Succeeded"


class TestGoingOn:
    @pytest.mark.langgraph("F-D2", "F-E15", "L42")
    def test_the_updates_of_finished_siblings_are_sent_again(self):
        """
        A run that goes on streams what finished before it, marked as not run now.
        """
        first = Script(fan())
        first.begin({"log": []})
        first.saved()
        first.finish("z", log=["z"])
        first.fail("a", ValueError("no"))
        first.saved()

        second = Script(fan(), store=first.store, modes=frozenset({"updates"}))
        second.begin(None)
        second.saved()

        assert second.names == ["a"]
        assert second.streamed("updates") == [
            {"z": {"log": ["z"]}, "__metadata__": {"cached": True}}
        ]

    @pytest.mark.promise("S140")
    @pytest.mark.langgraph("F-G2", "F-G4")
    def test_a_failure_stays_on_record(self):
        """
        A task that failed and then finished shows its result, and the error it had.
        """
        first = Script(fan())
        first.begin({"log": []})
        first.saved()
        first.fail("a", ValueError("no"))
        first.finish("z", log=["z"])
        first.saved()
        second = Script(fan(), store=first.store)
        second.play(None, {"a": lambda _: {"log": ["a"]}, "z": idle})
        record = first.store.restored(-2)
        assert record is not None

        failed = snapshot(fan(), record, "t", live=False).tasks[1]

        assert (failed.name, failed.result) == ("a", {"log": ["a"]})
        assert failed.error == "ValueError('no')"
