"""Checks of the contract: each is one sentence about savers and the function that tests it."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import anyio
import msgspec

from actorgraph.testing.conformance.bench import Bench, NotOfferedError, Place

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
