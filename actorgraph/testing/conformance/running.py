"""All checks of a saver from a script, and the report."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from actorgraph.testing.conformance.bench import Place
from actorgraph.testing.conformance.checks import CHECKS, Check, Group

CheckOutcome = Literal["passed", "failed", "left out"]


class CheckResult(msgspec.Struct, frozen=True):
    """What came of one check.

    Attributes:
        why: what was wrong, or why the check was left out; empty if it passed.
    """

    check: Check
    outcome: CheckOutcome
    why: str = ""


class SaverReport(msgspec.Struct, frozen=True):
    """What came of all checks; `print(report)` shows it."""

    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> bool:
        """Whether none failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """Those that failed."""
        return tuple(r for r in self.results if r.outcome == "failed")

    def __str__(self) -> str:
        """A line per check, and the sums."""
        lines = [
            f"{r.outcome:<9} {r.check.name}" + (f"\n          {r.why}" if r.why else "")
            for r in self.results
        ]
        counts = {o: sum(r.outcome == o for r in self.results) for o in ("passed", "failed")}
        left = len(self.results) - sum(counts.values())
        lines.append(f"{counts['passed']} passed, {counts['failed']} failed, {left} left out")
        return "\n".join(lines)


async def check_saver(place: Place, *, groups: Iterable[Group] | None = None) -> SaverReport:
    """Try every check of the contract on a saver.

        @asynccontextmanager
        async def place():
            with TemporaryDirectory() as folder:
                yield lambda: MySaver(folder)

        report = await check_saver(place)
        print(report)
        assert report.passed

    What `place` yields makes savers over one store. The saver has the methods of
    `actorgraph.ports.Saver`, or LangGraph's (`aput`, `aget_tuple` ...), or both; checks of what
    it hasn't are left out.

    Args:
        place: makes an empty store; called once per check.
        groups: only these groups of checks; default all.
    """
    wanted = None if groups is None else set(groups)
    results = [
        await _tried(check, place) for check in CHECKS if wanted is None or check.group in wanted
    ]
    return SaverReport(tuple(results))


async def _tried(check: Check, place: Place) -> CheckResult:
    try:
        left_out = await check(place)
    except Exception as error:  # noqa: BLE001 - whatever a saver raises is its result
        return CheckResult(check, "failed", _message(error))
    return CheckResult(check, "left out" if left_out else "passed", left_out or "")


def _message(error: Exception) -> str:
    """What an error says; of several that came together the first."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
