"""Links that don't outlive their engine's absence, or others' messages: the checks find each."""

from typing import Any

import pytest

from actorgraph.testing import dispatcher_checks, engine_checks
from tests.dispatch.faulty_engines import (
    ENGINE_FAULTS,
    EngineFault,
    faulty_engine,
    memory_engine,
)

CHECKS = {check.__name__: check for check in dispatcher_checks("engine")}
FOUND: tuple[Any, ...] = (AssertionError, TimeoutError, OSError, ValueError)
"""How a check fails: by itself, or by the error that the fault lets through."""


@pytest.fixture
async def engine():
    """
    An engine in memory, which goes away and gets messages of others.
    """
    async with memory_engine() as place:
        yield place


@pytest.mark.parametrize("check", CHECKS)
async def test_an_engine_in_memory_passes(engine, check):
    """
    Without a fault a wrapped link passes: what the checks find is the fault.
    """
    await CHECKS[check](faulty_engine(engine, EngineFault))


@pytest.mark.parametrize("name", ENGINE_FAULTS)
async def test_a_planted_fault_is_found(engine, name, monkeypatch):
    """
    A link with a fault fails the check of what it breaks.
    """
    fault, check = ENGINE_FAULTS[name]
    monkeypatch.setattr(engine_checks, "PATIENCE_S", 0.3)

    with pytest.raises(FOUND):
        await CHECKS[check](faulty_engine(engine, fault))


def test_each_check_has_a_fault():
    """
    A check that no planted fault fails would hold nothing.
    """
    assert {check for _, check in ENGINE_FAULTS.values()} == set(CHECKS)
