"""Many threads of one system: none is lost, none holds another, and what has left is gone."""

import gc
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver, SqliteSaver
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.run.supervisor import Supervisor
from actorgraph.runtime.system.pace import AT_ONCE_MAX, SAVES_MAX, Pace
from tests.support.gates import PATIENCE_S
from tests.support.graphs import in_a_row

THREADS = 300


class Log(TypedDict):
    """A list that grows by an item per step."""

    log: Annotated[list[int], add]


def steps(count: int, first: Any = None) -> Any:
    """So many nodes in a row, each of which adds its number; the first awaits `first`."""

    def node(number: int) -> Any:
        async def write(_: Log) -> dict[str, list[int]]:
            if first is not None and number == 0:
                await first()
            return {"log": [number]}

        return write

    return in_a_row({f"n{number}": node(number) for number in range(count)}, schema=Log)


async def run_all(system: ActorSystem, names: list[str]) -> list[str]:
    """Run on each thread, all at once; how each left."""
    left: list[str] = []

    async def one(name: str) -> None:
        run = await system.start("g", name, {"log": []}, stream_mode=())
        left.append(await run.wait())

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(one, name)
    return left


@pytest.mark.one_loop
async def test_each_thread_has_all_its_steps(tmp_path):
    """
    Hundreds of threads run at once on one file, and each one has every step when it is read.
    """
    names = [f"t{number}" for number in range(THREADS)]
    async with ActorSystem({"g": steps(3)}, saver=SqliteSaver(tmp_path / "runs.db")) as system:
        left = await run_all(system, names)
        states = [
            await system.graphs["g"].aget_state({"configurable": {"thread_id": name}})
            for name in names
        ]
        threads = system.statistics().threads

    assert left == ["success"] * THREADS
    assert [state.values["log"] for state in states] == [[0, 1, 2]] * THREADS
    assert [state.next for state in states] == [()] * THREADS
    assert threads == 0


async def test_runs_that_wait_in_a_node_delay_no_others():
    """
    However many runs wait in a node, the next one begins: here all wait for the last one.
    """
    count, entered, gate = 3 * AT_ONCE_MAX, list[None](), Gate()

    async def wait() -> None:
        entered.append(None)
        if len(entered) == count:
            gate.open()
        await gate.wait()

    async with ActorSystem({"g": steps(1, wait)}, saver=InMemorySaver()) as system:
        left = await run_all(system, [f"t{number}" for number in range(count)])

    assert left == ["success"] * count


async def test_a_run_that_has_left_leaves_nothing_to_the_collector():
    """
    The memory of a run is free when it has left, with the collector switched off too.
    """
    gc.collect()
    known = {id(found) for found in gc.get_objects() if type(found) is Supervisor}
    gc.disable()
    try:
        async with ActorSystem({"g": steps(3)}, saver=InMemorySaver()) as system:
            await run_all(system, [f"t{number}" for number in range(5)])
            await system.graphs["g"].ainvoke(
                {"log": []}, {"configurable": {"thread_id": "beside the system"}}
            )
            await anyio.lowlevel.checkpoint()
            found = [o for o in gc.get_objects() if type(o) is Supervisor and id(o) not in known]
    finally:
        gc.enable()

    assert found == []


class TestPace:
    async def test_no_more_than_its_bound_have_their_turn(self):
        """
        A caller that comes when `AT_ONCE_MAX` have their turn waits until one of them is over.
        """
        order: list[str] = []

        async def come() -> None:
            await pace.turn(Gate())
            order.append("turn")
            group.cancel_scope.cancel()

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                pace = Pace(group)
                for _ in range(AT_ONCE_MAX):
                    await pace.turn(Gate())
                assert not pace.is_free()
                group.start_soon(come)
                await anyio.wait_all_tasks_blocked()
                order.append("over")
                pace.over()

        assert order == ["over", "turn"]

    async def test_no_turn_is_given_while_many_saves_wait(self):
        """
        A run that comes when `SAVES_MAX` saves wait for the store begins when there are fewer.
        """
        waiting, order = [SAVES_MAX], list[str]()

        async def come() -> None:
            await pace.turn(Gate())
            order.append("turn")
            group.cancel_scope.cancel()

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                pace = Pace(group, lambda: waiting[0])
                group.start_soon(come)
                for _ in range(AT_ONCE_MAX):
                    await anyio.lowlevel.checkpoint()
                order.append("fewer")
                waiting[0] -= 1

        assert order == ["fewer", "turn"]

    @pytest.mark.parametrize("how", ["opened", "closed"])
    async def test_every_waiter_continues(self, how: str):
        """
        A waiter goes on when the gate is opened, and when the pace's group ends.
        """
        gate, gone = Gate(), Gate()

        async def come() -> None:
            await pace.turn(gate)
            gone.open()

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as callers, anyio.create_task_group() as group:
                pace = Pace(group)
                for _ in range(AT_ONCE_MAX):
                    await pace.turn(Gate())
                callers.start_soon(come)
                await anyio.wait_all_tasks_blocked()
                if how == "opened":
                    gate.open()
                    await gone.wait()
                group.cancel_scope.cancel()

        assert gone.is_open
