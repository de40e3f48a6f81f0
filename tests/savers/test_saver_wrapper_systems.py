"""ActorSystems over savers around savers."""

from contextlib import closing
from typing import Any

import anyio
import pytest

from actorgraph import (
    ActorSystem,
    AuditedSaver,
    AuditLog,
    GuardedSaver,
    InvalidConfigError,
    LimitedSaver,
    MeteredSaver,
    RetryingSaver,
    SqliteSaver,
)
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.systems import turnstile_first


def wrapped(kind: str, path: Any, log: AuditLog) -> Any:
    """A saver around one of the same file."""
    inner = SqliteSaver(path)
    if kind == "audited":
        return AuditedSaver(inner, log)
    if kind == "limited":
        return LimitedSaver(inner, max_bytes=1_000_000)
    return RetryingSaver(inner) if kind == "retrying" else MeteredSaver(inner, lambda _: None)


@pytest.mark.one_loop
@pytest.mark.parametrize("kind", ["metered", "limited", "retrying", "audited"])
async def test_runs_outlive_a_system_over_a_saver_around_a_saver(kind, tmp_path):
    """
    Such a saver keeps runs as the one inside does: the next system takes up what one has left.
    """
    slow = Turnstile({"bar": ["a"]})
    graph, path = turnstile_first(slow), tmp_path / "runs.db"
    with anyio.fail_after(PATIENCE_S), closing(AuditLog(tmp_path / "audit.log")) as log:
        saver = wrapped(kind, path, log)
        async with ActorSystem({"g": graph}, saver=saver) as one:
            left = await one.start("g", "t", {"bar": ["x"]}, resumable=True)
            await slow.entered.wait()
            await one.drain(0)
        slow.out.set()
        async with ActorSystem({"g": graph}, saver=wrapped(kind, path, log)) as other:
            (run,) = await other.recover()
            result = await run.result()
            told = [event.kind async for event in run.events()]

    assert (left.status, run.id) == ("pending", left.id)
    assert result["bar"] == ["x", "a", "b"]
    assert told.count("metadata") == 2


def test_a_guarded_saver_is_refused():
    """
    Operations of a system without a thread can't be judged by principal: the error says where to
    ask.
    """
    guarded = GuardedSaver(SqliteSaver(":memory:"), lambda *_: True)
    for saver in (guarded, MeteredSaver(guarded, lambda _: None)):
        with pytest.raises(InvalidConfigError, match="GuardedSaver"):
            ActorSystem({"g": turnstile_first(Turnstile())}, saver=saver)
