"""Supersteps that leave cells unwritten, and nodes that wait until nothing else would run."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import UNCHANGED, Channel
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import START
from actorgraph.values.policies import RunPolicy
from tests.superstep.script import Script, Store, graph, idle


class Countdown(Channel[int]):
    """A channel that counts down in each superstep that doesn't write it."""

    clears = True

    def fold(self, name, value, writes):
        return writes[-1]

    def idle(self, value):
        return value - 1 if value else UNCHANGED


def counting(names: list[str]) -> Plan:
    """A plan with such a channel under each of these names."""
    schema: Any = TypedDict("schema", dict.fromkeys(names, COUNTDOWN))  # type: ignore[misc]
    return graph(schema, {"a": idle}, [])


COUNTDOWN: Any = Annotated[int, Countdown(int)]


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


class TestIdleSupersteps:
    @pytest.mark.parametrize("count", [1, 15, 16, 17, 40])
    def test_age_each_cell_by_its_own_rule(self, count):
        """
        However many such channels there are, each set cell that was not written gets what its
        rule makes of its value; the others keep their versions.
        """
        names = [f"c{n:02}" for n in range(count)]
        plan = counting(names)
        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        apply(state, [TaskWrites("x", (), tuple((n, 2) for n in names[::2]))])
        first = names[0]
        apply(state, [TaskWrites("x", ("t",), ((first, 9),))])

        expected = dict.fromkeys(names[::2], 1) | {first: 9}
        assert {n: v for n, v in state.values.items() if n in names} == expected
        assert {state.versions[n] for n in expected} == {2}
        for _ in range(2):
            apply(state, [TaskWrites("x", ("t",), ())])
        assert state.values[first] == 7
        assert [state.versions[n] for n in names[2::2]] == [3] * len(names[2::2])

    def test_age_them_in_the_order_of_the_plan(self):
        """
        The order of the changed cells does not depend on when they were set.
        """
        names = [f"c{n:02}" for n in reversed(range(20))]
        plan = counting(names)
        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        apply(state, [TaskWrites("x", (), (("c03", 2), ("c07", 2), ("c05", 2)))])
        state.versions.clear()
        apply(state, [TaskWrites("x", ("t",), ())])

        assert list(state.versions) == ["c07", "c05", "c03"]


class TestDeferredNodes:
    def run(self) -> Script:
        """START -> a -> b; `late` is deferred, and triggered by `a`."""
        builder = GraphBuilder(Log).add_node("late", idle, defer=True)
        for name in "ab":
            builder.add_node(name, idle)
        builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "late")
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"log": []})
        return run

    def test_run_when_nothing_else_would(self):
        """
        A deferred node waits while an edge makes another node due.
        """
        run = self.run()
        run.finish("a", log=["a"])
        assert run.names == ["b"]
        run.finish("b", log=["b"])
        assert run.names == ["late"]
        run.finish("late", log=["late"])

        assert run.outcome.values == {"log": ["a", "b", "late"]}

    def test_run_at_once_when_nothing_else_is_due(self):
        """
        A deferred node behind the last other one follows it.
        """
        builder = GraphBuilder(Log).add_node("late", idle, defer=True).add_node("a", idle)
        builder.add_edge(START, "a").add_edge("a", "late")
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"log": []})
        run.finish("a", log=["a"])

        assert run.names == ["late"]

    @pytest.mark.parametrize(("opens", "following"), [(True, "c"), (False, "late")])
    def test_wait_for_joins_that_have_opened(self, opens, following):
        """
        A join makes its node due when all have come, and not before.
        """
        builder = GraphBuilder(Log).add_node("late", idle, defer=True)
        for name in "abc":
            builder.add_node(name, idle)
        builder.add_edge(START, "a").add_edge("a", "late").add_edge(["a", "b"], "c")
        if opens:
            builder.add_edge(START, "b")
        else:
            builder.add_edge("c", "b")
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"log": []})
        for name in run.names:
            run.finish(name, log=[name])

        assert run.names == [following]

    def test_wait_for_sends_too(self):
        """
        A pending Send is work that comes first.
        """
        run = self.run()
        run.finish("a", log=["a"])
        run.finish("b", Send("b", 1))
        assert run.names == ["b"]
        run.finish("b", Command(goto="b"))
        assert run.names == ["b"]
        run.finish("b", log=["b"])

        assert run.names == ["late"]

    def test_that_were_not_triggered_do_not_run(self):
        """
        The end of other work alone makes none due.
        """
        builder = GraphBuilder(Log).add_node("late", idle, defer=True).add_node("a", idle)
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", lambda s: "__end__", ["late", "__end__"])
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"log": []})
        run.finish("a", log=["a"])

        assert run.outcome.values == {"log": ["a"]}

    def test_behind_a_deferred_join_run_once(self):
        """
        A join of a deferred node opens when all have come and nothing else runs.
        """
        builder = GraphBuilder(Log).add_node("late", idle, defer=True)
        for name in "abc":
            builder.add_node(name, idle)
        builder.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "late")
        builder.add_edge("b", "c")
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"log": []})
        run.finish("a", log=["a"])
        run.finish("b", log=["b"])
        assert run.names == ["c"]
        run.finish("c", log=["c"])
        assert run.names == ["late"]
        run.finish("late", log=["late"])

        assert run.outcome.values == {"log": ["a", "b", "c", "late"]}
