"""Run all checks on a saver and report the results."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from actorgraph.testing.conformance.bench import Place
from actorgraph.testing.conformance.checks import CHECKS, Check, Group

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
