"""Gates: they open once, and hold no reference to waiters that have given up."""

import gc
import threading

import anyio

from actorgraph.runtime.mailbox import Gate, Mailbox, Waiting, wait_for_wake_up
from actorgraph.runtime.system.journal import Journal
from tests.support.gates import PATIENCE_S


def boxes() -> int:
    """Mailboxes that are still referenced."""
    gc.collect()
    return sum(type(thing) is Mailbox or type(thing) is Gate for thing in gc.get_objects())


async def give_up(wait, *args):
    """Wait, and be cancelled at once."""
    async with anyio.create_task_group() as group:
        group.start_soon(wait, *args)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


class TestWaiting:
    async def test_a_cancelled_wait_leaves_nothing(self):
        """
        A gate that stays shut holds nothing of those who have given up.
        """
        gate = Gate()
        await give_up(gate.wait)
        before = boxes()

        for _ in range(6):
            await give_up(gate.wait)

        assert boxes() <= before

    async def test_a_reader_that_looks_again_and_again_leaves_nothing(self):
        """
        A reader with a time limit for each event may wait for hours on a run that says nothing.
        """
        journal = Journal(frozenset({"updates"}))
        await give_up(journal.wait_after, 0)
        before = boxes()

        for _ in range(6):
            await give_up(journal.wait_after, 0)

        assert boxes() <= before

    async def test_all_waiters_continue_once_it_is_open(self):
        """
        Every waiter goes on, from whatever thread it is opened, and one that comes later too.
        """
        gate, through = Gate(), []

        async def wait():
            await gate.wait()
            through.append(1)

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                threading.Thread(target=gate.open).start()
            await wait()

        assert len(through) == 6

    async def test_a_condition_that_holds_is_not_waited_for(self):
        """
        The state is checked again once the waiter is in the list, and the list is as it was.
        """
        waiting: Waiting = []

        with anyio.fail_after(PATIENCE_S):
            await wait_for_wake_up(waiting, lambda: len(waiting) == 1)

        assert waiting == []
