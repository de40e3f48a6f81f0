"""The registry of crons: what they run and when, and which of their ticks have been started.

The two are items of their own: clients write the first, servers the second, so that neither undoes
a change of the other.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import anyio
from msgspec import Struct

from actorgraph.internals import shielded
from actorgraph.web.jobs.cron_agenda import CronAgenda, Entry
from actorgraph.web.jobs.cron_plan import (
    CronDecision,
    NoTick,
    Timetable,
    check_timetable,
    decide_tick,
    time_of,
)
from actorgraph.web.jobs.stored_items import ItemKind

CRON = "cron_id"
"""The key in the metadata of runs and threads for the cron that started them."""


class StoredCron(Struct):
    """A cron.

    Attributes:
        assistant_id: an assistant's id.
        thread_id: the thread of all its runs; None for a new one each time.
        schedule: five fields.
        timezone: name in the IANA's database; None for UTC.
        end_time: ISO 8601; None for no end.
        metadata: checked by the access rules; merged under that of its runs.
        wanted: what the access rules required of new threads when it was created.
        payload: the body of its runs.
        on_run_completed: whether threads made for its runs are deleted with them.
        since: ISO 8601; ticks after this count. Set anew when the timetable changes.
        user_id: text of the principal that created it.
        note: which version of the graph the payload is of: "input", and the notes of settings
            (`stored_bodies`). Empty if an older version of the library wrote it.
    """

    cron_id: str
    assistant_id: str
    thread_id: str | None
    schedule: str
    timezone: str | None
    end_time: str | None
    enabled: bool
    metadata: dict[str, Any]
    wanted: dict[str, Any]
    payload: dict[str, Any]
    on_run_completed: str
    since: str
    created_at: str
    updated_at: str
    user_id: str | None = None
    note: dict[str, Any] = {}

    @property
    def timetable(self) -> Timetable:
        """When it runs."""
        since = datetime.fromisoformat(self.since)
        return Timetable(self.schedule, self.timezone, since, time_of(self.end_time), self.enabled)

    @property
    def keeps_threads(self) -> bool:
        """Whether threads that are made for its runs outlive them."""
        return self.on_run_completed == "keep"

    def thread_of(self, tick: datetime) -> str:
        """Return the thread of a tick's run: its own, or one named after the tick."""
        return self.thread_id or str(uuid5(_TICKS, f"{self.cron_id}/{tick.isoformat()}"))


class FiredTick(Struct):
    """A note of a cron's newest started tick.

    Attributes:
        since: the cron's, when the tick was started.
        fired: ISO 8601.
    """

    since: str
    fired: str

    def check(self) -> None:
        """Raise a `ValueError` if the time is none."""
        datetime.fromisoformat(self.fired)


_check_timetable = lru_cache(4096)(check_timetable)
"""Once per timetable: all crons are read at each look."""


def _check(cron: StoredCron) -> None:
    """Raise an error if a cron has no timetable."""
    _check_timetable(cron.schedule, cron.timezone)
    _ = cron.timetable


_TICKS = uuid5(NAMESPACE_OID, "actorgraph.ticks")

PAGE = 20
"""Crons that each look reads although the agenda has no entry that is due."""


def _entry_of(cron: StoredCron, decision: CronDecision) -> Entry | None:
    return None if isinstance(decision, NoTick) else Entry(cron.cron_id, decision.tick)


def _of_owner(user: str | None) -> tuple[str, str, str]:
    """Return the namespace with an item for each cron of a client, to count them."""
    name = "" if user is None else user
    return "actorgraph", "cron_owners", sha256(name.encode("utf-8", "replace")).hexdigest()


class CronRegistry:
    """The crons of one server.

    Args:
        store: keeps them.

    Attributes:
        agenda: when they have to be looked at.
        creating: held while a client's crons are counted and one is added.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self.agenda = CronAgenda(store)
        self.creating = anyio.Lock()
        self._page_from = 0
        self._crons = ItemKind(store, "crons", StoredCron, _check)
        self._fired = ItemKind(store, "cron_ticks", FiredTick, FiredTick.check)

    async def get(self, cron_id: str) -> StoredCron | None:
        """Return a cron; None if it doesn't exist or can't be read."""
        return await self._crons.get(cron_id)

    async def is_unreadable(self, cron_id: str) -> bool:
        """Whether a cron is stored that can't be read."""
        return await self._crons.get(cron_id) is None and await self._crons.has(cron_id)

    async def all(self, **wanted: Any) -> list[StoredCron]:
        """Return all readable crons whose fields have these values."""
        return list((await self._crons.all(**wanted)).values())

    async def page(self) -> list[StoredCron]:
        """Return the next few crons, from the first again after the last."""
        found, count = await self._crons.page(PAGE, self._page_from)
        self._page_from = 0 if count < PAGE else self._page_from + PAGE
        return found

    async def begin_agenda(self, now: datetime) -> None:
        """Enter all crons in the agenda: once for a store, whose crons older versions wrote."""
        if await self.agenda.is_begun():
            return
        for cron in await self.all(enabled=True):
            with suppress(Exception):  # the page that has it names its error
                await self.schedule(cron, await self.decide(cron, now))
        await self.agenda.begin(now)

    async def count_of(self, user: str | None, most: int) -> int:
        """Count the crons of a client, up to `most`."""
        return len(await self._store.asearch(_of_owner(user), limit=most))

    async def put(self, cron: StoredCron) -> None:
        """Store a cron, with its place in the agenda."""
        now = datetime.now(UTC)
        await self.begin_agenda(now)
        known = await self.get(cron.cron_id)
        before = None if known is None else await self._entry(known, now)
        after = await self._entry(cron, now)
        if after is not None:  # first, because an entry of a cron that isn't stored does no harm
            await self.agenda.add(after)
        await shielded(lambda: self._store.aput(_of_owner(cron.user_id), cron.cron_id, {}))
        await self._crons.put(cron.cron_id, cron)
        if before is not None and before != after:
            await self.agenda.remove([before])

    async def remove(self, cron_id: str) -> None:
        """Remove a cron; runs that it has started go on."""
        known = await self.get(cron_id)
        await self._crons.remove(cron_id)
        if known is not None:
            entry = await self._entry(known, datetime.now(UTC))
            await self.agenda.remove([] if entry is None else [entry])
            await shielded(lambda: self._store.adelete(_of_owner(known.user_id), cron_id))
        await self._fired.remove(cron_id)

    async def schedule(self, cron: StoredCron, decision: CronDecision) -> None:
        """Enter a cron in the agenda for the tick of a decision."""
        entry = _entry_of(cron, decision)
        if entry is not None:
            await self.agenda.keep(entry)

    async def _entry(self, cron: StoredCron, now: datetime) -> Entry | None:
        return _entry_of(cron, await self.decide(cron, now))

    async def remove_of(self, **wanted: str) -> None:
        """Remove the crons of an assistant or of a thread."""
        for cron in await self.all(**wanted):
            await self.remove(cron.cron_id)

    async def fired(self, cron: StoredCron) -> datetime | None:
        """Return the noted time of the cron's newest started tick; None for no tick yet.

        A note that can't be read is none: a tick that started a stored run doesn't start another.
        """
        value = await self._fired.get(cron.cron_id)
        if value is None or value.since != cron.since:  # of an earlier timetable
            return None
        return datetime.fromisoformat(value.fired)

    async def note_fired(self, cron: StoredCron, fired: datetime) -> None:
        """Note that a tick was started; the next one is after `fired`."""
        await self._fired.put(cron.cron_id, FiredTick(cron.since, fired.isoformat()))

    async def decide(self, cron: StoredCron, now: datetime) -> CronDecision:
        """Decide what a cron does next, from its stored items."""
        return decide_tick(cron.timetable, await self.fired(cron), now)

    async def needs(self, thread_id: str, metadata: Mapping[str, Any]) -> bool:
        """Whether a thread is that of a tick which isn't noted as started.

        While it exists, no other server can start the tick's run again.
        """
        cron_id = metadata.get(CRON)
        cron = await self.get(cron_id) if isinstance(cron_id, str) else None
        if cron is None:
            return False
        following = await self.decide(cron, datetime.now(UTC))
        return not isinstance(following, NoTick) and (cron.thread_of(following.tick) == thread_id)
