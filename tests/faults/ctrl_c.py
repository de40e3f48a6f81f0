"""A signal at the k-th moment of a blocking call, for every k, and a look at what is left.

The handler of SIGINT is Python's own; one of SIGTERM raises SystemExit, as programs install it. The
moments, counted in the thread that calls:

| moments   | the signal comes                                                                    |
|-----------|-------------------------------------------------------------------------------------|
| steps     | when the call waits, before and after it carries out an effect, in a nested one too |
| functions | inside of a node, or between two functions that run in the caller's thread          |
| storage   | while another thread begins, or has ended, an operation of the saver                |
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from actorgraph import EmptyInputError
from actorgraph.runtime import worker_threads
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.runtime.stepper import Stepper
from actorgraph.runtime.task.calling import abandoned
from actorgraph.testing import FaultPlan, FaultySaver
from tests.faults.plain_scenarios import PlainOracle, compiled, run_through
from tests.faults.scenarios import CONFIG, INPUT, Scenario
from tests.faults.stores import Store, recorded_blocking

MOMENTS = ("steps", "functions", "storage")
ENDS_WITHIN_S = 0.5
K_MAX = 100_000
JUDGED = (
    "late",
    "swallowed",
    "strange errors",
    "handler changed",
    "threads left",
    "still claimed",
    "lost",
    "wrong",
)
"""Counters that must be 0 at every moment."""
ERRORS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: SystemExit}


def busy_threads() -> int:
    """How many threads there are, without those that wait for work."""
    return sum(thread.name == "actorgraph-worker" for thread in threading.enumerate()) - len(
        vars(worker_threads)["_IDLE"]
    )


class Clicker:
    """Counts moments, and sends the main thread a signal at the k-th.

    Args:
        times: how many moments in a row bring a signal; 2 is an impatient person.
    """

    def __init__(self, k: int, number: signal.Signals, times: int = 1) -> None:
        self._due = range(k, k + times)
        self._number = number
        self._main = threading.main_thread().ident or 0
        self.count = 0
        self.at: float | None = None

    @property
    def fired(self) -> bool:
        return self.at is not None

    def tick(self) -> None:
        self.count += 1
        if self.count in self._due:
            self.at = time.monotonic()
            signal.pthread_kill(self._main, self._number)


class TickingOracle(PlainOracle):
    """An oracle whose nodes bring moments."""

    tick: Callable[[], None] | None = None

    def write(self, what: str, label: str) -> None:
        super().write(what, label)
        if self.tick is not None and what in {"start", "done"}:
            self.tick()


class TickingPlan(FaultPlan):
    """Storage that never fails, and whose operations bring moments."""

    tick: Callable[[], None] | None = None

    def run(self, name: str, operation: Callable[[], Any], default: Any) -> Any:
        self._tell()
        result = super().run(name, operation, default)
        self._tell()
        return result

    async def arun(self, name: str, operation: Callable[[], Any], default: Any) -> Any:
        self._tell()
        result = await super().arun(name, operation, default)
        self._tell()
        return result

    def _tell(self) -> None:
        if self.tick is not None:
            self.tick()


@contextmanager
def each_step(clicker: Clicker) -> Iterator[None]:
    """A moment whenever a blocking call waits, and around each effect."""
    execute = vars(BlockingSupervisor)["_execute"]
    block = vars(Stepper)["_block"]

    def executed(self: Any, effect: Any) -> Any:
        clicker.tick()
        answer = execute(self, effect)
        clicker.tick()
        return answer

    def blocked(self: Any, *args: Any) -> Any:
        clicker.tick()
        return block(self, *args)

    with (
        patch.object(BlockingSupervisor, "_execute", executed),
        patch.object(Stepper, "_block", blocked),
    ):
        yield


@contextmanager
def moments(
    kind: str, clicker: Clicker, oracle: TickingOracle, plan: TickingPlan
) -> Iterator[None]:
    """Bring moments of a kind meanwhile."""
    if kind == "steps":
        with each_step(clicker):
            yield
    else:
        source: Any = oracle if kind == "functions" else plan
        source.tick = clicker.tick
        try:
            yield
        finally:
            source.tick = None


@contextmanager
def handled(number: signal.Signals) -> Iterator[None]:
    """Python's own handler of SIGINT, or one of SIGTERM that ends the program."""
    before = signal.getsignal(number)
    own = signal.default_int_handler if number == signal.SIGINT else _leave
    signal.signal(number, own)
    try:
        yield
    finally:
        signal.signal(number, before)


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit(3)


class Attempt:
    """One call that gets a signal, and what came of it."""

    def __init__(self, scenario: Scenario, store: Store, mode: str, oracle: TickingOracle) -> None:
        self._scenario, self._store, self._mode, self._oracle = scenario, store, mode, oracle
        self.found: Counter[str] = Counter()

    def make(self, kind: str, clicker: Clicker, number: signal.Signals) -> None:
        """Make the call, judge how it ends, then resume with the same saver."""
        plan = TickingPlan()
        with self._saver(plan) as saver:
            graph = compiled(self._scenario, self._oracle, saver)
            graph.get_state(CONFIG)  # the saver is open, and its threads have begun
            before = busy_threads()
            with handled(number):
                self._call(graph, kind, clicker, plan, number)
            self._look(saver, before)
            self._oracle.crash()
            text = recorded_blocking(saver, CONFIG)
            lost = sum(label not in text for label in self._oracle.acknowledged)
            self.found["wrong"] += not self._goes_on(graph)
            self.found["lost"] += lost + len(self._oracle.run_again())

    def _saver(self, plan: TickingPlan) -> FaultySaver:
        saver = self._store.saver()
        saver.plan = plan
        return saver

    def _call(
        self, graph: Any, kind: str, clicker: Clicker, plan: TickingPlan, number: signal.Signals
    ) -> None:
        handler, expected, ended = signal.getsignal(number), ERRORS[number], 0.0
        returned = False
        try:
            try:
                with moments(kind, clicker, self._oracle, plan):
                    run_through(graph, INPUT, self._mode, self._oracle)
                    returned = True
            finally:
                ended = time.monotonic()
        except expected:
            pass
        except BaseException as error:  # noqa: BLE001 - counted
            self.found["strange errors"] += 1
            print(repr(error))
        else:
            self.found["swallowed"] += clicker.fired and returned
        if clicker.at is not None:
            self.found["late"] += ended - clicker.at > ENDS_WITHIN_S
            self.found["longest, ms"] = round(1_000 * (ended - clicker.at))
        self.found["handler changed"] += signal.getsignal(number) is not handler

    def _look(self, saver: FaultySaver, before: int) -> None:
        deadline = time.monotonic() + 1.0
        while busy_threads() > before or abandoned():
            if time.monotonic() > deadline:
                self.found["threads left"] = 1
                return
            time.sleep(0.001)
        self.found["still claimed"] = len(host_of(saver).leaving)

    def _goes_on(self, graph: Any) -> bool:
        """Whether the thread comes to its end."""
        try:
            result = run_through(graph, None, self._mode, self._oracle)
        except EmptyInputError:
            result = run_through(graph, INPUT, self._mode, self._oracle)
        return (*result["log"],) == self._scenario.log


def interrupt_everywhere(  # noqa: PLR0917 - as the table of its callers has them
    scenario: Scenario,
    kind: str,
    mode: str,
    path: Path,
    moments_of: str,
    number: signal.Signals = signal.SIGINT,
    every: int = 1,
) -> Counter[str]:
    """Send a signal at each moment of a kind, or at every so many-th.

    Returns: how many there were, and how many of each of `JUDGED`.
    """
    seen: Counter[str] = Counter()
    longest = 0
    for k in range(1, K_MAX, every):
        clicker, found = interrupt_at(scenario, kind, mode, path, moments_of, number, k)
        if found["late"]:  # another process may have had the processor
            clicker, found = interrupt_at(scenario, kind, mode, path, moments_of, number, k)
        longest = max(longest, found.pop("longest, ms", 0))
        bad = {name: found[name] for name in JUDGED if found[name]}
        if bad:
            print(f"{scenario.name}, {kind}, {mode}, {moments_of}, {number.name}, {k}: {bad}")
        seen += found
        if not clicker.fired:
            seen["longest, ms"] = longest
            return seen
        seen["points"] += 1
    raise AssertionError("the call never ends")


def interrupt_at(  # noqa: PLR0917 - as above
    scenario: Scenario,
    kind: str,
    mode: str,
    path: Path,
    moments_of: str,
    number: signal.Signals,
    k: int,
    times: int = 1,
) -> tuple[Clicker, Counter[str]]:
    """One signal, and what came of it."""
    oracle = TickingOracle(staggers=mode != "exit", nested=mode != "exit")
    store = Store(kind, path, oracle)
    store.remove()
    clicker = Clicker(k, number, times)
    attempt = Attempt(scenario, store, mode, oracle)
    attempt.make(moments_of, clicker, number)
    return clicker, attempt.found
