"""Durations: wherever a program gives one, one that can't be is refused at once, by its name."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from actorgraph import (
    ActorSystem,
    CachePolicy,
    InMemorySaver,
    RetryPolicy,
    SqliteCache,
    SqliteSaver,
    StateGraph,
    TimeoutPolicy,
)
from actorgraph.caches import InMemoryCache
from actorgraph.dispatch import NATSDispatcher, PGQueuerDispatcher
from actorgraph.errors import ActorGraphError
from actorgraph.prebuilt import ChatCompletions, ToolNode
from actorgraph.stores import InMemoryStore, PostgresStore, SqliteStore
from actorgraph.systems import ShardedSystem
from actorgraph.values.durations import DURATION_MAX_S, seconds_of
from actorgraph.web import EventStream, GraphRoutes, Limits, WebhookPolicy
from tests.support.graphs import ab, at

pytestmark = pytest.mark.promise("S104")

WRONG = [timedelta.max, timedelta(seconds=-1), nan, inf, -inf, -1, 1e300, 10**400, "5", True]


def node(**options: Any) -> Any:
    """A graph whose node has these options."""
    return StateGraph(dict).add_node("a", lambda _: {}, **options)


def system(**options: Any) -> Any:
    """A system with these options."""
    return ActorSystem({"g": ab(InMemorySaver())}, **options)


def webhooks(**options: Any) -> Any:
    """A policy of webhooks with these options."""
    return WebhookPolicy(["hooks.example.com"], b"s" * 32, **options)


def each(make: Callable[..., Any], *names: str) -> dict[str, Callable[[Any], object]]:
    """A case for each argument of a callable."""
    label = getattr(make, "__name__", "")
    return {f"{label}.{name}": lambda v, n=name: make(**{n: v}) for name in names}


def postgres(**options: Any) -> Any:
    """A store of a server that is never asked."""
    return PostgresStore("postgresql://nowhere.invalid/x", **options)


async def say(text: str) -> str:
    """Say it."""
    return text


def ttl_store(**ttl: Any) -> Any:
    """A store with a time to live."""
    return InMemoryStore(ttl=ttl)  # pyright: ignore[reportArgumentType]


WAYS: dict[str, Callable[[Any], object]] = {
    **each(system, "drain_timeout_s", "retry_after_s", "lease_s", "keep_events_s", "loop_limit_s"),
    **each(webhooks, "timeout_s", "pause_s", "pause_max_s"),
    **each(postgres, "busy_timeout_s", "answer_timeout_s", "reconnect_timeout_s"),
    **each(Limits, "body_s", "requests_per_s", "stream_s"),
    **each(PGQueuerDispatcher, "again_s", "poll_s"),
    **each(ttl_store, "default_ttl", "sweep_interval_minutes"),
    "SqliteSaver.busy_timeout_s": lambda v: SqliteSaver(":memory:", busy_timeout_s=v),
    "SqliteStore.busy_timeout_s": lambda v: SqliteStore(":memory:", busy_timeout_s=v),
    "SqliteCache.busy_timeout_s": lambda v: SqliteCache(":memory:", busy_timeout_s=v),
    "NATSDispatcher.again_s": lambda v: NATSDispatcher("nats://nowhere.invalid", again_s=v),
    "ChatCompletions.timeout_s": lambda v: ChatCompletions("m", api_key="k", timeout_s=v),
    "GraphRoutes.reauthorize_s": lambda v: GraphRoutes(system(), reauthorize_s=v),
    "ShardedSystem.move_wait_s": lambda v: ShardedSystem({}, move_wait_s=v),
    "ToolNode.timeout": lambda v: ToolNode([say], timeout=v),
    "InMemoryCache.set": lambda v: InMemoryCache[int]().set({(("a",), "k"): (1, v)}),
    "InMemoryStore.put": lambda v: ttl_store().put(("a",), "k", {}, ttl=v),
    "start_ttl_sweeper": lambda v: ttl_store().start_ttl_sweeper(v),
    "stop_ttl_sweeper": lambda v: ttl_store().stop_ttl_sweeper(v),
    "retention": lambda v: InMemorySaver().retention(v),
    "CachePolicy.ttl": lambda v: node(cache_policy=CachePolicy(ttl=v)),
    "RetryPolicy.initial_interval": lambda v: node(retry_policy=RetryPolicy(initial_interval=v)),
    "RetryPolicy.max_interval": lambda v: node(retry_policy=RetryPolicy(max_interval=v)),
    "RetryPolicy.backoff_factor": lambda v: node(retry_policy=RetryPolicy(backoff_factor=v)),
    "TimeoutPolicy.run_timeout": lambda v: node(timeout=TimeoutPolicy(run_timeout=v)),
    "TimeoutPolicy.idle_timeout": lambda v: node(timeout=TimeoutPolicy(idle_timeout=v)),
    "deadline_s": lambda v: ab(None).invoke({}, at(), deadline_s=v),
    "step_timeout": lambda v: _stepped(v).invoke({}, at()),
}
"""Each way to give a duration without an event loop."""


def _stepped(step_timeout: Any) -> Any:
    graph = ab(None)
    graph.step_timeout = step_timeout
    return graph


@pytest.mark.parametrize("way", WAYS)
def test_impossible_durations_are_refused(way):
    """
    A duration that is negative, not finite, longer than a hundred years or no number is an error of
    the library, where it is given, with its value.
    """
    for wrong in WRONG:
        with pytest.raises(ActorGraphError) as found:
            WAYS[way](wrong)
        assert "got" in str(found.value) or "finite" in str(found.value), (way, wrong)


async def test_impossible_waits_are_refused():
    """
    So is one of a call that waits.
    """
    graph = ab(InMemorySaver())
    async with ActorSystem({"g": graph}) as opened:
        run = await opened.start("g", "t", {})
        for wrong in WRONG:
            for call in (run.wait, run.result, opened.drain, opened.trim):
                with pytest.raises(ActorGraphError, match="must be a number"):
                    await call(wrong)
            with pytest.raises(ActorGraphError):
                await opened.start("g", "t2", {}, delay_s=wrong)
            with pytest.raises(ActorGraphError):
                EventStream(None, run, ping_s=wrong)  # pyright: ignore[reportArgumentType]
        assert await run.wait(DURATION_MAX_S) == "success"


def test_the_longest_and_the_shortest():
    """
    Numbers and timedeltas up to a hundred years are durations; 0 is one where a call says so.
    """
    good = [1, 0.001, timedelta(milliseconds=1), DURATION_MAX_S]
    assert [seconds_of(each) for each in good] == [1.0, 0.001, 0.001, DURATION_MAX_S]
    assert [seconds_of(0), seconds_of(0, zero=True), seconds_of(DURATION_MAX_S * 1.01)] == [
        None,
        0.0,
        None,
    ]


MODULES = "caches checkpoints dispatch functional graph prebuilt stores streams systems types web"
ELSEWHERE = {
    "EventStream": "see `test_impossible_waits_are_refused`",
    "SaverCall": "a fact, not an argument",
    "SystemOwner": "a fact",
}
"""Classes that the table leaves out, and why."""


def _arguments() -> Iterator[str]:
    """The class and name of each argument of a public class that is a number of seconds."""
    for name in MODULES.split():
        module = importlib.import_module(f"actorgraph.{name}")
        for label in module.__all__:
            found = getattr(module, label)
            if not inspect.isclass(found) or label.startswith("Async"):
                continue
            with suppress(ValueError):  # a class of Python's own
                for argument in inspect.signature(found).parameters:
                    if argument.endswith("_s"):
                        yield f"{label}.{argument}"


def test_the_table_names_every_argument():
    """
    Each argument in seconds of a public class is in the table, so that a new one is tried too.
    """
    labels = {"system": "ActorSystem", "postgres": "PostgresStore", "webhooks": "WebhookPolicy"}
    ways = [way.partition(".") for way in WAYS]
    known = {f"{labels.get(label, label)}.{argument}" for label, _, argument in ways}
    known |= {name.replace("PostgresStore", "PostgresSaver") for name in known}
    found = [each for each in _arguments() if each.partition(".")[0] not in ELSEWHERE]

    assert [each for each in found if each not in known] == []
    assert len(found) > 15
