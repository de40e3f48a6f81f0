"""When a node fails: siblings end, what is finished is kept, and a resume runs only the rest."""

import anyio
import pytest

from actorgraph import END, START, GraphRecursionError, InMemorySaver, StateGraph
from actorgraph.testing import FaultPlan, FaultySaver
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import AB, ab, at, compiled, count, in_a_row, side_by_side, writer

pytestmark = pytest.mark.first_case

ORDERS = [("good", "bad"), ("bad", "good")]
both_orders = pytest.mark.parametrize("order", ORDERS, ids="-".join)


class Flaky:
    """A node that fails its first calls, once `after` is set if one is given.

    Attributes:
        calls: how often it was called.
    """

    def __init__(self, failures: int = 1, after: anyio.Event | None = None) -> None:
        self.failures = failures
        self.after = after
        self.calls = 0

    async def __call__(self, state):
        self.calls += 1
        if self.calls <= self.failures:
            if self.after is not None:
                await self.after.wait()
            raise ValueError("boom")
        return {"bar": ["mended"]}


class Good:
    """A node that succeeds and says so."""

    def __init__(self) -> None:
        self.calls = 0
        self.done = anyio.Event()

    async def __call__(self, state):
        self.calls += 1
        self.done.set()
        return {"bar": ["good"]}


class TestSiblings:
    @pytest.mark.promise("S003", "S173", "S174", "D6")
    @pytest.mark.every_saver
    @both_orders
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_finished_sibling_is_not_run_again(self, saver, order, durability):
        """
        Good and bad in one step, in either order: after the resume good ran once, bad twice.
        """
        good = Good()
        bad = Flaky(after=good.done)
        nodes = {"good": good, "bad": bad}
        graph = side_by_side({name: nodes[name] for name in order}, checkpointer=saver)

        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at(), durability=durability)
        result = await graph.ainvoke(None, at(), durability=durability)

        assert (good.calls, bad.calls) == (1, 2)
        assert sorted(result["bar"]) == ["good", "mended"]

    @pytest.mark.langgraph("F-C13", "L39")
    @both_orders
    async def test_the_failure_cancels_those_that_still_run(self, saver, order):
        """
        A sibling that has not finished is cancelled, cleans up, and runs again on resume.
        """
        slow = Turnstile({"bar": ["slow"]})
        bad = Flaky(after=slow.entered)
        nodes = {"good": slow, "bad": bad}
        graph = side_by_side({name: nodes[name] for name in order}, checkpointer=saver)

        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at())
        closed = slow.closed
        slow.out.set()
        result = await graph.ainvoke(None, at())

        assert (closed, slow.calls) == (1, 2)
        assert sorted(result["bar"]) == ["mended", "slow"]

    @pytest.mark.promise("S036", "S037", "S140")
    @pytest.mark.every_saver
    async def test_the_state_shows_the_error_and_the_result(self, saver):
        """
        After a failure each task of the step has its error or its result; what the finished ones
        wrote waits beside the checkpoint until the step is done.
        """
        good, fine = Good(), Good()

        async def later(state):
            await good.done.wait()
            return await fine(state)

        nodes = {"bad": Flaky(after=fine.done), "fine": later, "good": good}
        graph = side_by_side(nodes, checkpointer=saver)

        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at())
        tasks = (await graph.aget_state(at())).tasks
        waiting = (await saver.aget_tuple(at())).pending_writes
        await graph.ainvoke(None, at())
        after = await saver.aget_tuple(at())

        assert {t.name: (t.error, t.result) for t in tasks} == {
            "bad": ("ValueError('boom')", None),
            "fine": (None, {"bar": ["good"]}),
            "good": (None, {"bar": ["good"]}),
        }
        ids = {task.id: task.name for task in tasks}
        assert sorted((ids[task], channel) for task, channel, _ in waiting) == [
            *(("bad", "__error__"), ("fine", "bar"), ("good", "bar")),
        ]
        assert after.pending_writes == []

    async def test_a_late_success_of_a_cancelled_sibling_is_dropped_or_kept_whole(self, saver):
        """
        A sibling that ignores its cancellation is awaited; its writes count once.
        """
        entered = anyio.Event()
        calls: list[str] = []

        async def stubborn(state):
            calls.append("stubborn")
            entered.set()
            with anyio.CancelScope(shield=True):
                for _ in range(5):
                    await anyio.lowlevel.checkpoint()
            return {"bar": ["stubborn"]}

        bad = Flaky(after=entered)
        graph = side_by_side({"stubborn": stubborn, "bad": bad}, checkpointer=saver)

        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at())
        result = await graph.ainvoke(None, at())

        assert sorted(result["bar"]) == ["mended", "stubborn"]


class TestResuming:
    @pytest.mark.promise("S003", "S173")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_the_last_successful_step_is_where_it_goes_on(self, saver, durability):
        """
        a, then b fails once: the resume runs b only.
        """
        log: list[str] = []
        bad = Flaky()
        graph = in_a_row({"a": writer("a", log), "bad": bad}, checkpointer=saver)

        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at(), durability=durability)
        stored = await graph.aget_state(at())
        result = await graph.ainvoke(None, at(), durability=durability)

        assert (log, bad.calls) == (["a"], 2)
        assert (stored.values["bar"], stored.next) == (["a"], ("bad",))
        assert result["bar"] == ["a", "mended"]

    @pytest.mark.promise("D10", "C8")
    @pytest.mark.langgraph("F-C8", "L84")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_the_recursion_limit_leaves_a_thread_that_goes_on(self, saver, durability):
        """
        At the limit what was done is stored, in exit mode as one row.
        """
        graph = compiled({"a": writer("a")}, [(START, "a"), ("a", "a")], checkpointer=saver)
        config = {**at(), "recursion_limit": 3}

        with pytest.raises(GraphRecursionError, match="limit of 3"):
            await graph.ainvoke({}, config, durability=durability)
        first = (await graph.aget_state(at())).values["bar"]
        rows = await count(graph, at())
        with pytest.raises(GraphRecursionError):
            await graph.ainvoke(None, config, durability=durability)
        second = (await graph.aget_state(at())).values["bar"]

        assert (len(first), len(second)) == (3, 6)
        assert rows == (1 if durability == "exit" else 5)

    @pytest.mark.promise("D10", "C8")
    @pytest.mark.langgraph("L20")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_a_reducer_that_fails_leaves_the_writes(self, saver, durability):
        """
        A reducer's error ends the run; the nodes' work is kept and not done again, in exit mode
        too.
        """
        log: list[str] = []
        graph = side_by_side({n: writer(n, log) for n in "ab"}, checkpointer=saver)

        for _ in range(2):
            with pytest.raises(Exception, match="only one value per step"):
                await graph.ainvoke({} if not log else None, at(), durability=durability)

        assert sorted(log) == ["a", "b"]
        assert await count(graph, at()) == (1 if durability == "exit" else 2)

    @pytest.mark.promise("C8", "C32")
    async def test_killed_in_exit_then_resumed_in_async(self, store):
        """
        A thread run sync, then exit and killed, then resumed async ends right.
        """
        async with store.saver() as saver:
            await ab(saver).ainvoke({"bar": ["1"]}, at(), durability="sync")
        plan = FaultPlan(fail_at=4)
        async with FaultySaver(store.again(), plan, immediate=False) as dies:
            with pytest.raises(Exception, match="injected fault"):
                await ab(dies).ainvoke({"bar": ["2"]}, at(), durability="exit")
        async with store.again() as saver:
            graph = ab(saver)
            rows = await count(graph, at())
            result = await graph.ainvoke(None, at(), durability="async")

        assert plan.operations == ["open", "query", "commit", "commit"]
        assert rows == 4
        assert result["bar"] == ["1", "a", "b", "2", "a", "b"]


class TestGroups:
    async def test_the_first_failure_is_the_one_raised(self):
        """
        Of two failing siblings the one that failed first is raised.
        """
        first = anyio.Event()

        async def early(state):
            try:
                raise KeyError("early")
            finally:
                first.set()

        async def late(state):
            await first.wait()
            raise ValueError("late")

        with pytest.raises(KeyError, match="early"):
            await side_by_side({"late": late, "early": early}).ainvoke({})

    async def test_an_error_says_which_task_it_came_from(self):
        """
        The exception is the node's own, with a note that names the task.
        """
        with pytest.raises(ValueError, match="boom") as raised:
            await in_a_row({"bad": Flaky()}).ainvoke({})

        assert any("'bad'" in note for note in raised.value.__notes__)

    @pytest.mark.promise("D10", "C8")
    @pytest.mark.langgraph("L106")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_a_conditional_edge_that_fails_fails_its_node(self, saver, durability):
        """
        An error of a router is its node's: nothing of the task is kept, and what was done before
        is stored, in exit mode as one row.
        """
        log: list[str] = []

        def route(state):
            raise LookupError("no way")

        builder = StateGraph(AB).add_node("a", writer("a", log)).add_node("b", writer("b"))
        builder.add_edge(START, "a").add_edge("a", "b").add_conditional_edges("b", route, [END])
        graph = builder.compile(checkpointer=saver)

        for given in ({}, None):
            with pytest.raises(LookupError, match="no way"):
                await graph.ainvoke(given, at(), durability=durability)
        state = await graph.aget_state(at())

        assert (state.values["bar"], state.next, log) == (["a"], ("b",), ["a"])
        assert await count(graph, at()) == (1 if durability == "exit" else 3)

    async def test_a_failed_run_leaves_no_task(self):
        """
        After a failure every task of the run has ended.
        """
        nodes = {name: Turnstile() for name in "abc"}
        bad = Flaky(after=nodes["c"].entered)

        async with patient_group():
            with pytest.raises(ValueError, match="boom"):
                await side_by_side({**nodes, "bad": bad}, checkpointer=InMemorySaver()).ainvoke(
                    {}, at()
                )

        assert [n.closed for n in nodes.values()] == [n.calls for n in nodes.values()]
