"""The harness of the checks: the bench that opens savers, checks, results and the report.

A `Bench` opens savers of the kind under test over one store, which was empty. A `Check` is one
sentence about savers and the function that tests it: it fails with ContractBrokenError or any other
error that the saver raises, and is left out with NotOfferedError if the saver lacks an operation.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, TypeVar

import anyio
import msgspec

from actorgraph.ports import Saver
from actorgraph.testing.faults import FaultPlan, FaultySaver

T = TypeVar("T")

MakeSaver = Callable[[], Any]
"""Makes a saver over the store; a second call makes one as another process would."""

Place = Callable[[], AbstractAsyncContextManager[MakeSaver]]
"""A context manager that makes an empty store, yields a `MakeSaver` and removes the store."""


class NotOfferedError(Exception):
    """The saver doesn't have an operation that a check needs; the check is left out."""


class Bench:
    """Opens savers over one store.

    Args:
        make: makes a saver. It may have a method `failing(plan)` that makes a saver whose storage
            consults the `FaultPlan` at each operation.
    """

    def __init__(self, make: MakeSaver) -> None:
        self._make = make

    @asynccontextmanager
    async def public(self) -> AsyncGenerator["Public"]:
        """A saver with LangGraph's methods, open during the block.

        A saver that has only the methods of `ports.Saver` is hosted by this library's actors.
        """
        made = self._make()
        bare = isinstance(made, Saver) and not hasattr(made, "aget_tuple")
        saver: Any = FaultySaver(made) if bare else made
        if hasattr(saver, "__aenter__"):
            async with saver as opened:
                yield Public(opened)
        else:
            yield Public(saver)

    @asynccontextmanager
    async def port(self) -> AsyncGenerator[Saver]:
        """A saver with the methods of `ports.Saver`, open during the block, without actors."""
        async with opened(self._port(self._make())) as saver:
            yield saver

    def require_durable(self) -> None:
        """Skip the check unless the saver is durable.

        Raises: NotOfferedError: its `durable` is false.
        """
        if not getattr(self._make(), "durable", True):
            raise NotOfferedError("the saver is not durable")

    def failing(self, plan: FaultPlan) -> Saver:
        """A saver whose storage fails as a plan says.

        Raises: NotOfferedError: the place can't make one.
        """
        make = getattr(self._make, "failing", None)
        if make is None:
            raise NotOfferedError("the place makes no savers that fail")
        return self._port(make(plan))

    def _port(self, saver: Any) -> Saver:
        if not isinstance(saver, Saver):
            raise NotOfferedError("it doesn't have the methods of actorgraph.ports.Saver")
        return saver


@asynccontextmanager
async def opened(port: Saver) -> AsyncGenerator[Saver]:
    """Open a saver for the block; close it also if the block is cancelled."""
    await port.open()
    try:
        yield port
    finally:
        with anyio.CancelScope(shield=True):
            await port.close()


async def at_once(do: Callable[[T], Awaitable[None]], items: Iterable[T]) -> None:
    """Call a function for all items concurrently; raise the first failure, without a group."""
    failures = list[Exception]()

    async def one(item: T) -> None:
        try:
            await do(item)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)

    async with anyio.create_task_group() as group:
        for item in items:
            group.start_soon(one, item)
    if failures:
        raise failures[0]


class Public:
    """A saver's LangGraph methods; sync ones are called in a worker thread if async ones lack."""

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    def require_methods(self, *names: str) -> None:
        """Skip the check unless the saver has these methods, async or sync.

        Raises: NotOfferedError: one is missing.
        """
        for name in names:
            if not (hasattr(self.saver, f"a{name}") or hasattr(self.saver, name)):
                raise NotOfferedError(f"it has no method {name}")

    async def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method: the async one, or the sync one in a worker thread.

        Raises: NotOfferedError: the saver has neither.
        """
        self.require_methods(name)
        if hasattr(self.saver, f"a{name}"):
            try:
                return await getattr(self.saver, f"a{name}")(*arguments, **options)
            except NotImplementedError as missing:
                if not hasattr(self.saver, name):
                    raise NotOfferedError(f"it has no method {name}") from missing
        try:
            return await anyio.to_thread.run_sync(
                lambda: getattr(self.saver, name)(*arguments, **options)
            )
        except NotImplementedError as missing:
            raise NotOfferedError(f"it has no method {name}") from missing

    async def put(
        self,
        config: Mapping[str, Any],
        checkpoint: Any,
        metadata: Mapping[str, Any],
        versions: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `aput`; without `versions` all channels are new."""
        versions = checkpoint["channel_versions"] if versions is None else versions
        return await self.call("put", config, checkpoint, metadata, versions)

    async def put_writes(
        self, config: Mapping[str, Any], writes: Iterable[tuple[str, Any]], task: str
    ) -> None:
        """Call `aput_writes`."""
        await self.call("put_writes", config, [*writes], task)

    async def get(self, config: Mapping[str, Any]) -> Any:
        """Call `aget_tuple`."""
        return await self.call("get_tuple", config)

    async def list(self, config: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        """Call `alist`; return all that it yields."""
        if hasattr(self.saver, "alist"):
            try:
                return [found async for found in self.saver.alist(config, **options)]
            except NotImplementedError:
                pass
        self.require_methods("list")
        return await anyio.to_thread.run_sync(lambda: [*self.saver.list(config, **options)])


SECONDS_MAX = 60
SHOWN_MAX = 300

Group = Literal[
    "basic",
    "writes",
    "lineage",
    "reopen",
    "concurrent",
    "removals",
    "hostile ids",
    "filters",
    "claims",
    "rows",
    "runs",
    "alarms",
    "lists",
    "deltas",
    "failures",
]
Trial = Callable[[Bench], Awaitable[None]]


class ContractBrokenError(AssertionError):
    """The saver breaks its contract."""


class Check(msgspec.Struct, frozen=True):
    """One check. `await check(place)` tries it on a store of its own.

    Attributes:
        group: the part of the contract that it is about.
        name: unique among all checks.
        sentence: the requirement.
        trial: tests it with a `Bench`.
    """

    group: Group
    name: str
    sentence: str
    trial: Trial

    def __str__(self) -> str:
        """The name, for test ids."""
        return self.name

    async def __call__(self, place: Place) -> str | None:
        """Run the check on an empty store.

        Args:
            place: makes the store; see `check_saver`.
        Returns: None if it passes; the reason if it is left out.
        Raises:
            ContractBrokenError: it fails.
            TimeoutError: it took longer than 60 seconds.
        """
        try:
            with anyio.fail_after(SECONDS_MAX):
                async with place() as make:
                    await self.trial(Bench(make))
        except NotOfferedError as left_out:
            return str(left_out)
        return None


CHECKS: list[Check] = []
"""All checks, in the order of their groups."""


def check(group: Group) -> Callable[[Trial], Trial]:
    """Decorate a function as a check, with the function's name and its docstring as sentence."""

    def add(trial: Trial) -> Trial:
        name = getattr(trial, "__name__", str(trial))
        sentence = " ".join((trial.__doc__ or "").split())
        CHECKS.append(Check(group, f"{group}: {name}".replace("_", " "), sentence, trial))
        return trial

    return add


def same(found: Any, wanted: Any, what: str) -> None:
    """Require two values to be equal.

    Raises: ContractBrokenError: they differ.
    """
    if found != wanted:
        raise ContractBrokenError(f"{what}: {_short(found)}; should be {_short(wanted)}")


def holds(condition: object, what: str) -> None:
    """Require a condition to be true.

    Args:
        what: the text of the error.
    Raises: ContractBrokenError: the condition is false.
    """
    if not condition:
        raise ContractBrokenError(what)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


CheckOutcome = Literal["passed", "failed", "left out"]


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check.

    Attributes:
        why: the error, or the reason why the check was left out; empty if it passed.
    """

    check: Check
    outcome: CheckOutcome
    why: str = ""


class SaverReport(msgspec.Struct, frozen=True):
    """The results of all checks; `print(report)` shows them."""

    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The results of checks that failed."""
        return tuple(r for r in self.results if r.outcome == "failed")

    def __str__(self) -> str:
        """One line per check, and the counts."""
        lines = [
            f"{r.outcome:<9} {r.check.name}" + (f"\n          {r.why}" if r.why else "")
            for r in self.results
        ]
        counts = {o: sum(r.outcome == o for r in self.results) for o in ("passed", "failed")}
        left = len(self.results) - sum(counts.values())
        lines.append(f"{counts['passed']} passed, {counts['failed']} failed, {left} left out")
        return "\n".join(lines)


async def check_saver(place: Place, *, groups: Iterable[Group] | None = None) -> SaverReport:
    """Run the checks of the contract on a saver.

        @asynccontextmanager
        async def place():
            with TemporaryDirectory() as folder:
                yield lambda: MySaver(folder)

        report = await check_saver(place)
        print(report)
        assert report.passed

    `place` yields a function that makes savers over one store. They have the methods of
    `actorgraph.ports.Saver`, or LangGraph's (`aput`, `aget_tuple` ...), or both; checks of
    methods that they lack are left out.

    Args:
        place: makes an empty store; called once per check.
        groups: run only these groups of checks; default all.
    Returns: the report; a failed check doesn't raise.
    """
    wanted = None if groups is None else set(groups)
    results = [
        await _tried(check, place) for check in CHECKS if wanted is None or check.group in wanted
    ]
    return SaverReport(tuple(results))


async def _tried(check: Check, place: Place) -> CheckResult:
    try:
        left_out = await check(place)
    except Exception as error:  # noqa: BLE001 - any error of a saver is a result
        return CheckResult(check, "failed", _message(error))
    return CheckResult(check, "left out" if left_out else "passed", left_out or "")


def _message(error: Exception) -> str:
    """The text of an error; of an exception group that of the first one."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
