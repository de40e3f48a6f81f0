"""Mailboxes and gates: no item and no wake-up is lost, from any thread, on both event loops."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from actorgraph.runtime.mailbox import (
    Gate,
    Mailbox,
    Waiting,
    wait_for_wake_up,
    wait_shielded,
    wake_all,
)
from tests.support.gates import PATIENCE_S, Box, patient_group, settled
from tests.support.warm_processes import run


def in_another_thread(work: Callable[[], Any]) -> None:
    """Do work in a thread of its own, to its end; no task of the calling loop runs meanwhile."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


class LateItems(deque[str]):
    """Items of which one arrives just after the queue was found to be empty."""

    late: str | None = None

    def __len__(self) -> int:
        length = super().__len__()
        if not length and self.late is not None:
            item, self.late = self.late, None
            self.append(item)
        return length


class TestOrder:
    def test_items_leave_in_the_order_in_which_they_came(self):
        """
        Items are taken first in first out, and those put first before all others.
        """
        box: Mailbox[str] = Mailbox()
        for item in "bcd":
            box.put(item)
        box.put_first("a")

        assert len(box) == 4
        assert [box.get_nowait() for _ in range(5)] == ["a", "b", "c", "d", None]

    async def test_items_that_are_there_need_no_wait(self):
        """
        A reader takes waiting items without parking.
        """
        box: Mailbox[str] = Mailbox()
        box.put("a")
        box.put("b")

        with anyio.fail_after(PATIENCE_S):
            await box.wait()
            assert [await box.get(), await box.get()] == ["a", "b"]
        assert not box.is_awaited


@pytest.mark.parametrize("put", [Mailbox.put, Mailbox.put_first])
class TestWakeUps:
    async def test_a_parked_reader_is_woken(self, put):
        """
        An item wakes the reader, which no longer waits then.
        """
        box: Mailbox[str] = Mailbox()
        read = Box()
        async with patient_group() as group:
            group.start_soon(read.fill, box.get)
            await settled()
            parked = box.is_awaited
            put(box, "a")

        assert (parked, read.value, box.is_awaited, len(box)) == (True, "a", False, 0)

    async def test_a_parked_reader_is_woken_from_another_thread(self, put):
        """
        Items put by another thread arrive, also several before the reader's loop goes on.
        """
        box: Mailbox[int] = Mailbox()
        read: list[int] = []

        async def reader() -> None:
            while len(read) < 6:
                read.append(await box.get())

        async with patient_group() as group:
            group.start_soon(reader)
            for first in (0, 3):
                await settled()
                in_another_thread(lambda first=first: [put(box, first + n) for n in range(3)])

        assert sorted(read) == list(range(6))

    async def test_a_sender_may_run_in_a_loop_of_its_own(self, put, anyio_backend_name):
        """
        A sender inside another thread's event loop wakes the reader in the reader's.
        """
        box: Mailbox[str] = Mailbox()
        read = Box()

        async def send() -> None:
            put(box, "a")

        async with patient_group() as group:
            group.start_soon(read.fill, box.get)
            await settled()
            in_another_thread(partial(anyio.run, send, backend=anyio_backend_name))

        assert read.value == "a"

    async def test_several_items_wake_the_reader_once(self, put):
        """
        Items put one after the other before the reader runs are all there when it does.
        """
        box: Mailbox[str] = Mailbox()
        read = Box()
        async with patient_group() as group:
            group.start_soon(read.fill, box.get)
            await settled()
            for item in "aaa":
                put(box, item)

        assert (read.value, list(box.items)) == ("a", ["a", "a"])

    async def test_waiting_takes_no_item(self, put):
        """
        `wait` returns once an item is there, and leaves it there.
        """
        box: Mailbox[str] = Mailbox()
        waited = Box()
        async with patient_group() as group:
            group.start_soon(waited.fill, box.wait)
            await settled()
            parked, over = box.is_awaited, waited.done.is_set()
            put(box, "a")

        assert (parked, over, box.is_awaited, list(box.items)) == (True, False, False, ["a"])

    async def test_a_reader_waits_on_after_a_wake_up_without_an_item(self, put):
        """
        A reader whose item was taken back before it ran goes on waiting for the next one.
        """
        box: Mailbox[str] = Mailbox()
        read = Box()
        async with patient_group() as group:
            group.start_soon(read.fill, box.get)
            await settled()
            put(box, "a")
            taken = box.get_nowait()
            await settled()
            over = read.done.is_set()
            put(box, "b")

        assert (taken, over, read.value) == ("a", False, "b")

    async def test_a_reader_that_gave_up_loses_nothing(self, put):
        """
        An item for a reader that was cancelled waits for the next one.
        """
        for wait in ("get", "wait"):
            box: Mailbox[str] = Mailbox()
            async with patient_group() as group:
                group.start_soon(getattr(box, wait))
                await settled()
                group.cancel_scope.cancel()
            assert not box.is_awaited
            put(box, "a")
            with anyio.fail_after(PATIENCE_S):
                assert await box.get() == "a"

    async def test_a_wake_up_for_a_reader_that_gave_up_is_harmless(self, put):
        """
        A reader may be cancelled between an item from another thread and its wake-up.
        """
        box: Mailbox[str] = Mailbox()
        async with patient_group() as group:
            group.start_soon(box.get)
            await settled()
            in_another_thread(lambda: put(box, "a"))
            group.cancel_scope.cancel()
        await settled()

        assert (box.is_awaited, list(box.items)) == (False, ["a"])


class TestRaces:
    @pytest.mark.parametrize("wait", ["get", "wait"])
    async def test_an_item_that_comes_before_the_reader_is_parked(self, wait):
        """
        An item whose sender saw no parked reader is found by the reader's second look.
        """
        box: Mailbox[str] = Mailbox()
        box.items = LateItems()
        box.items.late = "a"

        with anyio.fail_after(PATIENCE_S):
            if wait == "wait":
                assert not box.items
                await box.wait()
            assert await box.get() == "a"
        assert not box.is_awaited

    @pytest.mark.parametrize("put", [Mailbox.put, Mailbox.put_first])
    @pytest.mark.parametrize("loop", ["asyncio", "trio"])
    def test_the_loop_of_a_parked_reader_has_ended(self, loop, put):
        """
        An item for a reader whose event loop has ended raises nothing, from any thread.
        """
        box: Mailbox[str] = Mailbox()

        async def park() -> Any:
            reading = box.get()
            reading.send(None)  # goes as far as its first wait
            return reading

        reading = anyio.run(park, backend=loop)
        parked = box.is_awaited
        put(box, "a")
        in_another_thread(lambda: put(box, "a"))
        reading.close()

        assert parked
        assert list(box.items) == ["a", "a"]

    def test_a_halted_loop_delivers_later(self):
        """
        An item put by the reader's thread while its loop is stopped arrives when it runs again.
        """
        box: Mailbox[str] = Mailbox()
        loop = asyncio.new_event_loop()
        reading = loop.create_task(box.get())
        loop.run_until_complete(asyncio.sleep(0))
        box.put("a")

        assert loop.run_until_complete(asyncio.wait_for(reading, PATIENCE_S)) == "a"
        loop.close()

    def test_an_error_of_a_running_loop_is_not_hidden(self):
        """
        A loop that is open and refuses a wake-up shows its error to the sender.
        """

        class Refusing(asyncio.SelectorEventLoop):
            def call_soon_threadsafe(self, *args: Any, **options: Any) -> Any:
                raise RuntimeError("no wake-up")

        box: Mailbox[str] = Mailbox()
        errors: list[str] = []

        def send() -> None:
            try:
                box.put("a")
            except RuntimeError as error:
                errors.append(str(error))

        loop = Refusing()
        reading = loop.create_task(box.get())
        loop.run_until_complete(asyncio.sleep(0))
        in_another_thread(send)
        reading.cancel()
        loop.run_until_complete(asyncio.wait([reading]))
        loop.close()

        assert errors == ["no wake-up"]


class TestGates:
    async def test_a_shut_gate_holds_everyone_until_it_opens(self):
        """
        Waiters pass a gate once it is open, not before; opening it again does nothing.
        """
        gate = Gate()
        through: list[int] = []

        async def wait(number: int) -> None:
            await gate.wait()
            through.append(number)

        async with patient_group() as group:
            for number in range(3):
                group.start_soon(wait, number)
            await settled()
            before = (gate.is_open, list(through))
            gate.open()
            gate.open()
            await wait(3)

        assert before == (False, [])
        assert gate.is_open is True
        assert sorted(through) == [0, 1, 2, 3]

    @pytest.mark.parametrize("empties", [True, False], ids=["the list", "nothing"])
    async def test_a_listed_waiter_waits_for_its_owner(self, empties):
        """
        A wait ends when the list's owner wakes it, whether or not it empties the list too.
        """
        waiting: Waiting = []
        waited = Box()
        async with patient_group() as group:
            group.start_soon(waited.fill, wait_for_wake_up, waiting, lambda: False)
            await settled()
            (place,), over = waiting, waited.done.is_set()
            if empties:
                waiting.clear()
            place.put(None)

        assert (over, waited.error, waiting) == (False, None, [])

    async def test_a_late_waiter_is_woken_with_the_next_ones(self):
        """
        The list stays the owner's: a waiter that had looked it up before a wake-up isn't lost.
        """
        waiting: Waiting = [Mailbox()]
        late = wait_for_wake_up(waiting, lambda: False)
        wake_all(waiting)
        woken_first = len(waiting)
        waited = Box()
        async with patient_group() as group:
            group.start_soon(waited.fill, lambda: late)
            await settled()
            over = waited.done.is_set()
            wake_all(waiting)

        assert (woken_first, over, waited.error, waiting) == (0, False, None, [])

    async def test_a_wait_that_was_given_up_leaves_the_list(self):
        """
        Of two waiters in a list, the one whose wait was cancelled is taken out.
        """
        waiting: Waiting = [Mailbox()]
        kept = list(waiting)
        async with patient_group() as group:
            group.start_soon(wait_for_wake_up, waiting, lambda: False)
            await settled()
            group.cancel_scope.cancel()

        assert waiting == kept


class TestSureAnswers:
    async def test_an_answer_is_awaited_through_a_cancellation(self):
        """
        A cancelled scope is left after the answer has come, and the answer is taken.
        """
        box: Mailbox[str] = Mailbox()
        answers: list[str] = []
        waited = Box()

        async def wait() -> None:
            answers.append(await wait_shielded(box.get))
            await anyio.lowlevel.checkpoint()
            answers.append("not cancelled")

        async with patient_group() as group:
            group.start_soon(waited.fill, wait)
            await settled()
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await settled()
            over = waited.done.is_set()
            box.put("a")

        assert (over, answers) == (False, ["a"])

    def test_an_answer_is_awaited_through_cancellations_of_asyncio(self):
        """
        A task that is cancelled, even twice, takes the answer first and is cancelled then.
        """
        box: Mailbox[str] = Mailbox()

        async def wait_twice_cancelled() -> list[bool]:
            task = asyncio.ensure_future(wait_shielded(box.get))
            seen: list[bool] = []
            for _ in range(2):
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.sleep(0)
                seen.append(task.done() or not box.is_awaited)
            box.put("a")
            await asyncio.wait([task], timeout=PATIENCE_S)
            return [*seen, task.cancelled()]

        assert asyncio.run(wait_twice_cancelled()) == [False, False, True]
        assert not box.items


PRESSED_AT_A_LINE = """
import signal, sys
import trio
import trio.testing
from actorgraph.runtime import mailbox
from actorgraph.runtime.mailbox import Gate, Mailbox

count = pressed = 0

def trace(frame, event, _):
    global count
    if frame.f_code.co_filename != mailbox.__file__ or "__" in frame.f_code.co_name:
        return None
    if event == "line":
        count += 1
        if count == pressed:
            sys.settrace(None)
            frame.f_trace = None
            signal.raise_signal(signal.SIGINT)
    return trace

async def main():
    there, back, gate = Mailbox(), Mailbox(), Gate()

    async def echo():
        while True:
            back.put(await there.get())

    async def wait():
        await gate.wait()
        await trio.sleep_forever()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo)
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            sys.settrace(trace)
            for number in range(3):
                there.put(number)
                assert await back.get() == number
            gate.open()
            nursery.cancel_scope.cancel()
        sys.settrace(None)

while count >= pressed:
    count, pressed = 0, pressed + 1
    try:
        trio.run(main)
        end = "ended"
    except BaseException as error:
        end = type(error).__name__
        while isinstance(error, BaseExceptionGroup):
            error, = error.exceptions
            end = type(error).__name__
    sys.settrace(None)
    print(pressed, end)
"""


def test_ctrl_c_at_any_line_ends_the_tasks_that_wait_for_each_other_on_trio():
    """
    Whichever line of a wake-up or of a wait it comes at: no wake-up is lost, and none comes to a
    task that has gone, which trio reports as an error of its own.
    """
    end = run(["-c", PRESSED_AT_A_LINE], check=True)
    *pressed, last = [line.split()[1] for line in end.stdout.splitlines()]

    assert last == "ended"  # there are not so many lines
    assert len(pressed) > 20
    assert set(pressed) == {"KeyboardInterrupt"}
