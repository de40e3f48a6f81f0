"""Crons are found by their due time: a look reads those that are due, and a few others."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from actorgraph import InMemorySaver
from actorgraph.api.system.thread_finder import assistant_id
from actorgraph.stores import InMemoryStore, PostgresStore, SqliteStore
from actorgraph.stores.operations import Item, Op, Result
from actorgraph.web import Limits
from actorgraph.web.jobs.cron_plan import HOURS_MAX, hour_of, hours_between, next_look_s
from actorgraph.web.jobs.cron_registry import PAGE, CronRegistry, StoredCron
from tests.web.test_crons import Server

NOW = datetime(2026, 1, 1, 12, 0, 20, tzinfo=UTC)
TICK = datetime(2026, 1, 1, 12, tzinfo=UTC)
MANY = PAGE + 5


def cron_of(number: int, since: datetime, **fields: Any) -> StoredCron:
    """A cron whose first tick is the next new year, or the next minute."""
    made: dict[str, Any] = {
        "cron_id": f"cron-{number}",
        "assistant_id": assistant_id("log"),
        "thread_id": None,
        "schedule": "0 0 1 1 *",
        "timezone": None,
        "end_time": None,
        "enabled": True,
        "metadata": {},
        "wanted": {},
        "payload": {"input": {"foo": "x"}},
        "on_run_completed": "keep",
        "since": since.isoformat(),
        "created_at": "",
        "updated_at": "",
    }
    return StoredCron(**{**made, **fields})


class CountedStore(InMemoryStore):
    """Counts the items that are read."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, and count."""
        found = await super().abatch(ops)
        for one in found:
            self.read += len(one) if isinstance(one, list) else isinstance(one, Item)
        return found


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each store."""
    if request.param == "memory":
        return InMemoryStore()
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "items.db")
    url = request.getfixturevalue("postgres").url
    return PostgresStore(url, schema=f"{request.getfixturevalue('schema')}_items")


async def fill(crons: CronRegistry) -> None:
    """Store one cron that is due between more that are not than a look reads besides."""
    for number in range(2 * MANY):
        await crons.put(cron_of(number, NOW))
        if number == MANY:
            since = TICK - timedelta(seconds=30)
            await crons.put(cron_of(number, since, cron_id="due", schedule="* * * * *"))


class TestLooks:
    async def test_a_due_cron_is_found_among_many(self, store):
        """
        The first look at its time starts a cron's tick, wherever in the store it is.
        """
        server = Server(InMemorySaver(), store)
        async with server.system:
            await fill(server.server.crons)
            entries = await server.server.crons.agenda.due(NOW)
            await server.actor.look(NOW)
            first = len(await server.ended())
            await server.actor.look(NOW + timedelta(seconds=5))
            second = len(await server.ended())
            await server.actor.look(NOW + timedelta(minutes=1))

            assert [entry.cron_id for entry in entries] == ["due"]
            assert (first, second, len(await server.ended())) == (1, 1, 2)

    async def test_a_look_reads_few_crons(self):
        """
        However many crons there are, a look reads the due ones and one page of the others.
        """
        store = CountedStore()
        server = Server(InMemorySaver(), store)
        async with server.system:
            for number in range(5 * PAGE):
                await server.server.crons.put(cron_of(number, NOW))
            store.read = 0
            await server.actor.look(NOW)

        assert 0 < store.read <= 2 * PAGE

    async def test_crons_of_an_older_version_are_found(self, store):
        """
        Crons without an entry are entered: all at the first look, later ones in turn.
        """
        server, crons = Server(InMemorySaver(), store), ("actorgraph", "crons")
        since = TICK - timedelta(seconds=30)
        async with server.system:
            for number in range(PAGE + 1):
                made = cron_of(number, since, schedule="* * * * *")
                await store.aput(crons, made.cron_id, to_builtins(made))
            await server.actor.look(NOW)
            first = len(await server.ended())
            late = cron_of(PAGE + 1, since, schedule="* * * * *")
            await store.aput(crons, late.cron_id, to_builtins(late))
            for _ in range(2):
                await server.actor.look(NOW)

            assert (first, len(await server.ended())) == (PAGE + 1, PAGE + 2)

    async def test_ticks_of_a_break_are_found(self, store):
        """
        A server that comes back after hours starts the ticks that were missed at its first look.
        """
        server = Server(InMemorySaver(), store)
        async with server.system:
            await fill(server.server.crons)
            await server.server.crons.agenda.begin(NOW)
        later = Server(InMemorySaver(), store)
        async with later.system:
            await later.actor.look(NOW + timedelta(hours=7))

            assert len(await later.ended()) == 1


class TestEntries:
    async def test_a_changed_cron_has_one_entry(self, store):
        """
        The entry of a timetable that was changed, and that of a deleted cron, are gone.
        """
        crons = CronRegistry(store)
        made = cron_of(1, datetime.now(UTC))
        await crons.put(made)
        await crons.put(replace(made, schedule="0 0 2 1 *"))
        changed = await _entries(store)
        await crons.put(made)
        back = await _entries(store)
        await crons.remove(made.cron_id)

        assert (len(changed), len(back)) == (1, 1)
        assert changed != back
        assert await _entries(store) == []

    async def test_an_entry_of_another_program_harms_no_other(self, store):
        """
        An item of another program in the agenda is left out.
        """
        server = Server(InMemorySaver(), store)
        async with server.system:
            await fill(server.server.crons)
            hour = ("actorgraph", "cron_agenda", hour_of(TICK))
            await store.aput(hour, "no entry", {"at": 1})
            await server.actor.look(NOW)

            assert len(await server.ended()) == 1


async def _entries(store: Any) -> list[str]:
    found = await store.asearch(("actorgraph", "cron_agenda"), limit=100)
    return [item.key for item in found]


class TestLimits:
    async def test_a_client_may_have_so_many_crons(self, store):
        """
        One cron too many is a 429 with `Retry-After`; other clients may have theirs.
        """
        body = {"assistant_id": "log", "schedule": "0 0 1 1 *"}
        server = Server(InMemorySaver(), store, limits=Limits(crons_per_client=2))
        async with server.system:
            made = [await server.ask("POST", "/runs/crons", body) for _ in range(3)]
            other = await server.ask("POST", "/runs/crons", body, "bob")
            await server.ask("DELETE", f"/runs/crons/{made[0]['cron_id']}")
            again = await server.ask("POST", "/runs/crons", body)

        assert made[2] == 429
        assert other["cron_id"]
        assert again["cron_id"]


class TestPlan:
    def test_looks_come_at_whole_minutes(self):
        """
        The next look is at the next whole minute at the latest: ticks are at no other times.
        """
        assert next_look_s(NOW) == 40
        assert next_look_s(TICK) == 60

    @pytest.mark.parametrize(
        ("hours", "count"), [(0, 2), (1, 3), (24, 26), (HOURS_MAX * 2, HOURS_MAX)]
    )
    def test_hours_since_a_time(self, hours, count):
        """
        From one hour before it, as clocks differ, to now; a month of them at most.
        """
        found = hours_between(NOW - timedelta(hours=hours), NOW)

        assert len(found) == len(set(found)) == count
        assert found == sorted(found)
        assert found[-1] == "2026-01-01T12"
