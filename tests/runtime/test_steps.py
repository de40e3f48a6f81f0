"""Side effects that happen once: `astep` and `step` in nodes that run again."""

from functools import partial

import anyio
import pytest

from actorgraph import (
    START,
    Command,
    RetryPolicy,
    Send,
    StateGraph,
    astep,
    get_idempotency_key,
    interrupt,
    step,
    task,
)
from actorgraph.errors import InvalidConfigError, OutsideRunError, RunningLoopError
from tests.support.gates import patient_group
from tests.support.graphs import AB, at, in_a_row

MODES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


class Service:
    """Side effects of a node.

    Attributes:
        requests: what was asked of it.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def acharge(self, what: str = "charge") -> str:
        self.requests.append(what)
        return f"receipt {len(self.requests)}"

    def charge(self) -> str:
        self.requests.append("charge")
        return f"receipt {len(self.requests)}"


class TestOnce:
    @pytest.mark.promise("E7", "C10")
    @MODES
    @pytest.mark.parametrize("sync", [True, False])
    async def test_a_node_that_fails_after_it(self, saver, durability, sync):
        """
        A step is done once, though its node runs again in the next run.
        """
        service, failures = Service(), [ValueError("boom")]

        async def node(state):
            receipt = await astep("charge", service.acharge)
            if failures:
                raise failures.pop()
            return {"bar": [receipt]}

        def sync_node(state):
            receipt = step("charge", service.charge)
            if failures:
                raise failures.pop()
            return {"bar": [receipt]}

        graph = in_a_row({"node": sync_node if sync else node}, checkpointer=saver)
        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at(), durability=durability)
        result = await graph.ainvoke(None, at())

        assert result["bar"] == ["receipt 1"]
        assert service.requests == ["charge"]

    @pytest.mark.promise("E7")
    async def test_a_node_that_is_retried(self):
        """
        An attempt in the same run has the steps of the one before, without a saver too.
        """
        service, failures = Service(), [ValueError("boom")] * 2

        async def node(state):
            receipt = await astep("charge", service.acharge)
            if failures:
                raise failures.pop()
            return {"bar": [receipt]}

        policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
        builder = StateGraph(AB).add_node("node", node, retry_policy=policy)
        result = await builder.add_edge(START, "node").compile().ainvoke({})

        assert (result["bar"], service.requests) == (["receipt 1"], ["charge"])

    @pytest.mark.promise("E7")
    async def test_a_node_that_asks_after_it(self, saver):
        """
        A question runs the node again, and not its steps.
        """
        service = Service()

        async def node(state):
            receipt = await astep("charge", service.acharge)
            return {"bar": [receipt, interrupt("sure?")]}

        graph = in_a_row({"node": node}, checkpointer=saver)
        await graph.ainvoke({}, at())
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert (result["bar"], service.requests) == (["receipt 1", "yes"], ["charge"])

    async def test_each_key_and_each_task_for_itself(self, saver):
        """
        A step is known by its key and its task; the same key twice is one step.
        """
        service = Service()

        async def node(number):
            made = [await astep(key, partial(service.acharge, f"{number}{key}")) for key in "aba"]
            assert made[0] == made[2] != made[1]
            return {"bar": [str(len(set(made)))]}

        builder = StateGraph(AB).add_node("node", node)
        builder.add_conditional_edges(START, lambda s: [Send("node", i) for i in range(3)])
        result = await builder.compile(checkpointer=saver).ainvoke({}, at())

        assert result["bar"] == ["2"] * 3
        assert sorted(service.requests) == ["0a", "0b", "1a", "1b", "2a", "2b"]

    async def test_at_once_from_two_tasks_of_a_node(self):
        """
        A caller that comes while a step is being done waits for it; if it fails, the next one
        tries.
        """
        service, made = Service(), []

        async def flaky():
            await anyio.lowlevel.checkpoint()
            await service.acharge()
            if len(service.requests) == 1:
                raise ValueError("boom")
            return len(service.requests)

        async def one():
            try:
                made.append(await astep("charge", flaky))
            except ValueError:
                made.append("failed")

        async def node(state):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(one)

        async with patient_group():
            await in_a_row({"node": node}).ainvoke({})

        assert made == ["failed", 2, 2]

    async def test_in_a_called_task(self, saver):
        """
        Steps of a `@task` are its own.
        """
        service, failures = Service(), [ValueError("boom")]

        @task
        async def pay() -> str:
            receipt = await astep("charge", service.acharge)
            if failures:
                raise failures.pop()
            return receipt

        async def node(state):
            return {"bar": [await pay()]}

        graph = in_a_row({"node": node}, checkpointer=saver)
        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at())

        assert (await graph.ainvoke(None, at()))["bar"] == ["receipt 1"]
        assert service.requests == ["charge"]

    async def test_a_step_that_raises_is_done_again(self, saver):
        """
        Errors are not results.
        """
        service = Service()

        async def fails():
            await service.acharge()
            if len(service.requests) == 1:
                raise ValueError("boom")
            return "ok"

        async def node(state):
            return {"bar": [await astep("charge", fails)]}

        graph = in_a_row({"node": node}, checkpointer=saver)
        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at())

        assert (await graph.ainvoke(None, at()))["bar"] == ["ok"]

    async def test_steps_are_not_tasks(self, saver):
        """
        Neither the state nor the streams show steps.
        """

        async def node(state):
            await astep("k", lambda: 1)
            return {"bar": ["x", interrupt("?")]}

        graph = in_a_row({"node": node}, checkpointer=saver)
        chunks = [c async for c in graph.astream({}, at(), stream_mode=["updates", "tasks"])]
        shown = await graph.aget_state(at())

        assert [task.name for task in shown.tasks] == ["node"]
        assert {c["name"] for mode, c in chunks if mode == "tasks"} == {"node"}


class TestKeysForServices:
    @pytest.mark.promise("E7")
    async def test_the_same_for_each_attempt_and_no_other(self, saver):
        """
        The key of a task is that of its next attempt; another task has another.
        """
        keys: list[str] = []

        async def node(state):
            keys.append(get_idempotency_key("charge"))
            if len(keys) == 1:
                raise ValueError("boom")

        graph = in_a_row({"a": node, "b": node}, checkpointer=saver)
        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at())
        await graph.ainvoke(None, at())

        assert keys[0] == keys[1] != keys[2]
        assert keys[0].endswith("/charge")


class TestRefused:
    async def test_outside_of_a_node(self):
        """
        A call outside of tasks has no result to keep.
        """
        with pytest.raises(OutsideRunError, match="astep"):
            await astep("k", lambda: 1)
        with pytest.raises(OutsideRunError, match="get_idempotency_key"):
            get_idempotency_key()

    async def test_the_blocking_one_in_async_code(self):
        """
        `step` would stop the event loop.
        """

        async def node(state):
            step("k", lambda: 1)

        with pytest.raises(RunningLoopError, match="async code"):
            await in_a_row({"node": node}).ainvoke({})

    @pytest.mark.parametrize("key", ["", 3])
    async def test_a_key_must_be_a_string(self, key):
        """
        A step has a name.
        """

        async def node(state):
            await astep(key, lambda: 1)

        with pytest.raises(InvalidConfigError, match="key"):
            await in_a_row({"node": node}).ainvoke({})
