"""Steppers: run a coroutine in a thread that has no event loop.

A blocking call needs none of what an event loop is for: it is one coroutine, and while that waits
its thread has nothing else to do. So a coroutine of ours that waits yields what it waits for, and
the stepper blocks the thread meanwhile.

Waits      a mailbox that is empty, for its next item; or a `Pause`. Anything else is code that
           needs an event loop, which belongs into the portal
Nesting    a function that a coroutine calls may step another one in the same thread (a nested
           graph). A cancellation reaches the steppers above it in that thread too
Signals    in the main thread they are held while the coroutine runs and waits, and the program's
           handlers are in place in its functions, and while it waits for the portal; see
           `signals`. A stepper inside another one that is in no function shares what that holds
Ends       with the coroutine. `cancel` raises CancelledError in it, once, where it waits now or
           next; a function that runs is not interrupted
"""

import threading
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from threading import get_ident
from typing import Any, Final, Generic, TypeVar, cast

from actorgraph.errors.tracebacks import from_program
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal, worker_threads
from actorgraph.runtime.mailbox import Mailbox, ThreadWaiter
from actorgraph.runtime.signals import HeldSignals

T = TypeVar("T")

WAIT_MAX_S: Final = 0.1
"""Seconds after which a thread that waits looks whether a signal has come.

A signal interrupts the wait, unless it comes in the very instant before.
"""


class _Here(threading.local):
    stepper: "Stepper[Any] | None" = None


HERE = _Here()
"""Of this thread."""


def stepper_here() -> "Stepper[Any] | None":
    """The innermost stepper of this thread; None outside of one."""
    return HERE.stepper


def steps_here() -> bool:
    """Whether this code is in a coroutine of a stepper, and in no loop that a function runs."""
    return HERE.stepper is not None and not in_event_loop()


class Stepper(Generic[T]):
    """Runs one coroutine; see the module's docstring. One thread at a time may use it."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._waiter = ThreadWaiter()
        self._wait: Any = None  # for what the coroutine waits
        self.inner: Stepper[Any] | None = None
        self.signals: HeldSignals | None = None
        self._soon_above: Callable[[], None] | None = None  # of signals that are shared
        self.cancelled = False
        self.scope: Any = None
        self._busy_above: object = None  # for what its thread is busy outside of it
        self.error: BaseException | None = None
        self.depth = self.thread = 0
        self.in_function = self.is_lent = False
        self.ended = False
        self.value: T | None = None

    def run(self, is_there: Callable[[], bool] | None = None) -> T:
        """Run the coroutine to its end, or until something is there while it waits.

        Returns: its value; of no meaning before it has `ended`.
        Raises: its error; or what a signal's handler raises, after the coroutine has handled it.
        """
        above, send, throw = HERE.stepper, self._coroutine.send, self._coroutine.throw
        try:
            try:
                self._begin(above)
                begins = self._wait is None
                thrown = self._take_error() if begins and self.error is not None else None
                while begins or (thrown := self._block(is_there)) is not _THERE:
                    begins, self._wait = False, None
                    self._wait = send(None) if thrown is None else throw(thrown)
            except StopIteration as done:
                self.ended, self.value = True, done.value
            except BaseException:
                if self._wait is None:  # else a signal's handler has raised before it went on
                    self.ended = True
                    self._coroutine.close()  # it may not have begun
                raise
            finally:
                self._end(above)
        except BaseException as error:
            error.with_traceback(from_program(error).__traceback__)
            raise
        return self.value  # type: ignore[return-value]

    def _begin(self, above: "Stepper[Any] | None") -> None:
        """Have signals come to this stepper, which is inside of another one or not."""
        HERE.stepper = self
        self.thread = get_ident()
        self._busy_above = worker_threads.BUSY.get(self.thread)
        if above is not None:
            above.inner = self
            self.depth = above.depth + 1
            if above.error is not None:  # the cancellation has come before this one was there
                self.cancel()
            if above.signals is not None and not above.in_function:
                self.signals = above.signals
                self._soon_above, self.signals.soon = self.signals.soon, self._waiter.wake
                return
        if self.signals is None and self.thread == _MAIN:
            self.signals = HeldSignals(self._waiter.wake)
        if self.signals is not None:
            self.signals.take()

    def _end(self, above: "Stepper[Any] | None") -> None:
        """Undo `_begin`. Raises what the handlers of signals raise that have come meanwhile."""
        HERE.stepper = above
        if above is not None:
            above.inner = None
        if self._soon_above is not None and self.signals is not None:
            self.signals.soon = self._soon_above
            self.signals = self._soon_above = None
        elif self.signals is not None:
            self.signals.give_back()

    def _block(self, is_there: Callable[[], bool] | None) -> BaseException | None:
        """Wait until the coroutine may go on; return the error with which it goes on, or None."""
        wait, waiter, signals = self._wait, self._waiter, self.signals
        try:
            wait.park(waiter)
        except AttributeError:
            return RuntimeError(
                f"a blocking call, which has no event loop, awaits {type(wait).__name__}"
            )
        try:
            while True:
                if is_there is not None and is_there():
                    return _THERE
                if signals:
                    signals.deliver()
                if self.error is not None:
                    return self._take_error()
                left = wait.left_s()
                if left <= 0:
                    return None
                waiter.wait(min(left, WAIT_MAX_S))
        except BaseException as error:  # noqa: BLE001 - of a signal's handler
            return error
        finally:
            wait.park(None)

    def _take_error(self) -> BaseException:
        error, self.error = self.error, None
        return CancelledError() if error is None else error

    def wake(self) -> None:
        """Have it look whether something is there, from any thread."""
        self._waiter.wake()

    def cancel(self) -> None:
        """Cancel what the coroutine waits for, from any thread."""
        one: Stepper[Any] | None = self
        while one is not None:
            one.cancelled = True
            if one.scope is not None:
                one.scope.cancelled = True
            one.error = CancelledError()
            one.wake()
            one = one.inner

    def uncancel(self) -> None:
        """Forget a cancellation that has been handled."""
        self.cancelled, self.error = False, None

    @property
    def is_ending(self) -> bool:
        """Whether a signal, or a cancellation, waits for the coroutine's next wait."""
        signals = self.signals
        return self.error is not None or (signals is not None and bool(signals.waiting))

    def enter_function(self, scope: Any) -> None:
        """Put the program's handlers of signals in place: a function of it is called now.

        Args:
            scope: the task's; a cancellation marks it.
        Raises: what the handlers of signals raise that have come before it.
        """
        self.in_function = True
        self.scope = worker_threads.BUSY[self.thread] = scope
        if self.signals is not None:
            self.signals.enter_function()
            if self.signals.waiting:
                self.signals.deliver()

    def leave_function(self) -> None:
        """Have signals come to the stepper again.

        Raises: what a handler raises that is still in place; then it is to be called again.
        """
        self.in_function = False
        if self._busy_above is None:
            worker_threads.BUSY.pop(self.thread, None)
        else:
            worker_threads.BUSY[self.thread] = self._busy_above
        if self.signals is not None:
            self.signals.leave_function()

    def step_in(self) -> bool:
        """Begin work of the library that a function has called; return whether one has."""
        if not self.in_function:
            return False
        try:
            self.leave_function()
        except BaseException:  # of a handler: it rises in the function
            self.enter_function(self.scope)
            raise
        return True

    def step_out(self) -> None:
        """End such work. Raises what the handlers of signals raise that have come meanwhile."""
        self.enter_function(self.scope)

    def call_in_portal(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function of the program in the portal, and wait for its result.

        Raises: its error; after its cancellation what a signal's handler raises, or
            CancelledError if the stepper is cancelled.
        """
        outside = not self.in_function
        future = portal.begin(function, *args)  # before a handler may raise: it can be cancelled
        try:
            return portal.result_of(future, partial(self._wait_for, outside))
        finally:
            if outside:
                try:
                    self.leave_function()
                except BaseException:  # of a handler that was still in place
                    self.leave_function()
                    raise

    def _wait_for(self, outside: bool, future: Future[Any]) -> None:
        if outside:
            self.enter_function(self.scope)
        future.add_done_callback(lambda _: self._waiter.wake())
        while not future.done():
            if self.error is not None:
                raise self._take_error()
            self._waiter.wait(WAIT_MAX_S)


_THERE: Final = BaseException()
_MAIN = threading.main_thread().ident


DEPTH_MAX: Final = 8
"""Steppers inside each other in one thread. More would reach Python's limit of recursion."""


def begun(function: Callable[[], Awaitable[T]]) -> Callable[[], T]:
    """Call an async function, and return a function that runs its coroutine.

    In the thread that calls that one, to spare a debugger its frame; deep inside others in another
    thread.
    """
    above, coroutine = HERE.stepper, cast("Coroutine[Any, Any, T]", function())
    if above is not None and above.depth >= DEPTH_MAX:
        return partial(_in_another_thread, Stepper(coroutine), above)
    return Stepper(coroutine).run


def _in_another_thread(stepper: "Stepper[T]", above: "Stepper[Any]") -> T:
    """Run a coroutine in a worker thread, and wait for its end; in this one if there is none."""
    ended, errors = threading.Event(), []

    def serve() -> None:
        try:
            stepper.run()
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            errors.append(error)
        finally:
            ended.set()

    context = copy_context()
    above.inner = stepper
    try:
        try:
            worker_threads.start(lambda: context.run(serve))
        except RuntimeError:  # the system has no more threads
            return stepper.run()
        try:
            ended.wait()
        except BaseException:
            stepper.cancel()
            ended.wait()
            raise
    finally:
        above.inner = None
    if errors:
        raise errors.pop()
    return stepper.value  # type: ignore[return-value]


def in_portal(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Run an async function in the portal and wait for its result, in a thread without a loop.

    In a function of a stepper, what cancels that cancels this too.
    """
    stepper = HERE.stepper
    if stepper is not None and stepper.in_function and not in_event_loop():
        return stepper.call_in_portal(function, *args)
    return portal.result_of(portal.begin(function, *args))  # not `call`: a frame less in errors


async def here_or_in_portal(function: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Await an async function of the program: in the running loop, else in the portal's."""
    stepper = HERE.stepper
    if stepper is not None and steps_here():
        return stepper.call_in_portal(function, *args)
    return await function(*args)


async def run_together(works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run async functions at the same time, in worker threads.

    Each in a copy of this context. The first failure cancels the others, and isn't held up by
    functions of the program that go on in their threads. Those for which the system has no thread
    run here, one after the other.

    Raises: the first failure.
    """
    ends: Mailbox[BaseException | None] = Mailbox()
    steppers: list[Stepper[None]] = []

    def serve(stepper: Stepper[None], context: Context) -> None:
        try:
            context.run(stepper.run)
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            ends.put(error)
        else:
            ends.put(None)

    here: list[Callable[[], Coroutine[Any, Any, None]]] = []
    try:
        for work in works:
            context = copy_context()
            coroutine = context.run(work)
            stepper = Stepper(coroutine)
            try:
                worker_threads.start(partial(serve, stepper, context))
            except RuntimeError:  # the system has no more threads
                coroutine.close()
                here.append(work)
            else:
                steppers.append(stepper)
        for work in here:
            await _InCopy(work())
        for _ in steppers:
            if (error := await ends.get()) is not None:
                raise error
    except BaseException:
        for stepper in steppers:
            stepper.cancel()
        raise


class _InCopy:
    """Awaits a coroutine in a copy of this context."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._coroutine, self._context = coroutine, copy_context()

    def __await__(self) -> Generator[Any, None, None]:
        run, coroutine = self._context.run, self._coroutine
        try:
            wait = run(coroutine.send, None)
            while True:
                try:
                    yield wait
                except BaseException as error:  # noqa: BLE001 - cancellations pass through too
                    wait = run(coroutine.throw, error)
                else:
                    wait = run(coroutine.send, None)
        except StopIteration:
            return
