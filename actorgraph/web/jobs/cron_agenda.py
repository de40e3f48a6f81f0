"""The agenda of crons: at which times which crons have to be looked at.

Each entry is an item of the store, in a namespace for its hour. So a look reads those that are due,
and not all crons, in every store: the store's index of namespaces is the index of the times.

An entry says "look at this cron then", and nothing about what there is to do: that is decided from
the cron. So an entry too many changes nothing. One that is missing (an older version of the library
has written the cron, which has no agenda) is made good by the pages of crons that each look reads
besides (`CronRegistry.page`).
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from actorgraph.internals import shielded
from actorgraph.web.jobs.cron_plan import hour_of, hours_between

_HOURS = ("actorgraph", "cron_agenda")
_MARK = ("actorgraph", "cron_marks"), "from"
_PAGE = 200
_KNOWN_MAX = 100_000


class Entry(Struct, frozen=True):
    """One time at which a cron is looked at.

    Attributes:
        at: UTC.
    """

    cron_id: str
    at: datetime

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """The namespace and the key of its item; no two entries have the same."""
        seconds = int(self.at.timestamp())
        return (*_HOURS, hour_of(self.at)), f"{self.cron_id}@{seconds}"


class CronAgenda:
    """The entries of one server's crons.

    Args:
        store: keeps them.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._from: datetime | None = None
        self._known: set[Entry] = set()

    async def is_begun(self) -> bool:
        """Whether the crons that were stored before there was an agenda are in it."""
        if self._from is None:
            noted = await self._store.aget(*_MARK)
            if noted is not None:
                with suppress(LookupError, TypeError, ValueError, OverflowError, OSError):
                    self._from = datetime.fromtimestamp(int(noted.value["at"]), UTC)
        return self._from is not None

    async def begin(self, now: datetime) -> None:
        """Note that all crons are in the agenda, and that nothing before now is left."""
        self._from = now
        await self._put(*_MARK, now)

    async def add(self, entry: Entry) -> None:
        """Store an entry."""
        await self._put(*entry.place, entry.at)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known.add(entry)

    async def keep(self, entry: Entry) -> None:
        """Store an entry, unless this process has stored it before."""
        if entry not in self._known:
            await self.add(entry)

    async def remove(self, entries: Iterable[Entry]) -> None:
        """Remove entries."""
        for entry in entries:
            self._known.discard(entry)
            namespace, key = entry.place
            await shielded(lambda n=namespace, k=key: self._store.adelete(n, k))

    async def due(self, now: datetime) -> list[Entry]:
        """Return the entries whose time has come."""
        found: list[Entry] = []
        for hour in hours_between(min(self._from or now, now), now):
            found += await self._of_hour(hour, now)
        return found

    async def done(self, now: datetime, left: Sequence[Entry]) -> None:
        """Note up to which hour nothing is left, when another hour has begun.

        Args:
            left: entries that were due and stay.
        """
        first = min([now, *(entry.at for entry in left)])
        if self._from is None or hour_of(first) > hour_of(self._from):
            await self.begin(first)

    async def _put(self, namespace: tuple[str, ...], key: str, at: datetime) -> None:
        value = {"at": int(at.timestamp())}
        await shielded(lambda: self._store.aput(namespace, key, value))

    async def _of_hour(self, hour: str, now: datetime) -> list[Entry]:
        found: list[Entry] = []
        wanted = {"at": {"$lte": int(now.timestamp())}}
        read = 0
        while True:
            page = await self._store.asearch(
                (*_HOURS, hour), filter=wanted, limit=_PAGE, offset=read
            )
            for item in page:
                cron_id, _, seconds = item.key.rpartition("@")
                with suppress(ValueError, OverflowError, OSError):  # of another program
                    found.append(Entry(cron_id, datetime.fromtimestamp(int(seconds), UTC)))
            read += len(page)
            if len(page) < _PAGE:
                return found
