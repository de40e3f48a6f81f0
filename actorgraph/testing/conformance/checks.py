"""A check of the contract: one sentence about savers, and the program that tries it.

A check fails with `ContractBrokenError`, or with whatever the saver raised that it may not raise.
`NotOfferedError` says that the saver has no such operation; then the check is left out.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import anyio
import msgspec

if TYPE_CHECKING:
    from actorgraph.testing.conformance.bench import Bench, Place

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
    "lists",
    "deltas",
    "failures",
]
Trial = Callable[["Bench"], Awaitable[None]]


class ContractBrokenError(AssertionError):
    """A saver does something else than its contract says."""


class NotOfferedError(Exception):
    """A saver doesn't have the operation that a check is about."""


class Check(msgspec.Struct, frozen=True):
    """One check. `await check(place)` tries it on a store of its own.

    Attributes:
        group: what part of the contract it is about.
        name: unique among all checks.
        sentence: what must be so.
    """

    group: Group
    name: str
    sentence: str
    trial: Trial

    def __str__(self) -> str:
        """The name, for ids of tests."""
        return self.name

    async def __call__(self, place: "Place") -> str | None:
        """Try it.

        Args:
            place: makes an empty store; see `check_saver`.
        Returns: None if it holds; or why it doesn't concern this saver.
        Raises:
            ContractBrokenError: it doesn't hold.
            TimeoutError: it took longer than a minute.
        """
        from actorgraph.testing.conformance.bench import Bench

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
    """Add a check: its name is the function's, its sentence the docstring."""

    def add(trial: Trial) -> Trial:
        name = getattr(trial, "__name__", str(trial))
        sentence = " ".join((trial.__doc__ or "").split())
        CHECKS.append(Check(group, f"{group}: {name}".replace("_", " "), sentence, trial))
        return trial

    return add


def same(found: Any, wanted: Any, what: str) -> None:
    """Hold two values against each other.

    Raises: ContractBrokenError: they differ.
    """
    if found != wanted:
        raise ContractBrokenError(f"{what}: {_short(found)}; should be {_short(wanted)}")


def holds(condition: object, what: str) -> None:
    """Say what is wrong, unless a condition holds.

    Raises: ContractBrokenError: it doesn't.
    """
    if not condition:
        raise ContractBrokenError(what)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
