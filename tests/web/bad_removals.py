"""Removal of all that one client has, by the server's routes, and what stays in the tables."""

from typing import Any
from urllib.parse import quote

from anyio import to_thread
from structlog.testing import capture_logs

from tests.web.bad_places import BadPlace
from tests.web.bad_site import Site
from tests.web.planted_rows import BAD, Plant

THREADS = (BAD, *(f"{BAD}-{name}" for name in ("ask", "fail", "late", "due")))
KEYS = ("namespace", "key")
DONE = (204, 404)
"""Another request may have removed it with its own."""


class Removal:
    """A server that removes what the bad client has.

    Attributes:
        wrong: the requests that failed, with their answers.
        counts: table -> the number of rows that are left.
    """

    def __init__(
        self, place: BadPlace, plant: Plant | None = None, row: dict[str, Any] | None = None
    ) -> None:
        self._place, self._plant, self._row = place, plant, row or {}
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}

    async def carry_out(self) -> "Removal":
        """Remove assistants, crons, items and threads by their ids, and vacuum.

        A damaged id is removed by what lists and errors show of it.
        """
        with capture_logs():
            async with self._place.site() as site:
                await self._send(site)
                saver: Any = site.system.saver
                plant = self._plant
                if plant is not None and plant.column == "thread_id" and not plant.text:
                    await saver.adelete_thread(plant.value)
                if plant is not None and plant.table == "memory_items" and plant.column in KEYS:
                    await to_thread.run_sync(self._delete_item, site.system.store)
                await saver.avacuum()
        tables = self._place.tables()
        self.counts = {table: len(database.rows(table)) for database, table in tables}
        return self

    async def _send(self, site: Site) -> None:
        requests: list[tuple[str, Any]] = [
            (f"/assistants/{BAD}", None),
            (f"/runs/crons/{self._place.made[BAD]['cron_id']}", None),
            ("/store/items", {"namespace": [BAD], "key": BAD}),
            *((f"/threads/{one}", None) for one in (*THREADS, *self._shown())),
        ]
        for path, body in requests:
            answer = await site.send("DELETE", path, body)
            if answer.status_code not in DONE:
                self.wrong.append(f"DELETE {path}: {answer.status_code} {answer.text[:300]}")

    def _shown(self) -> list[str]:
        """The id of a registration, if that is damaged and still text."""
        plant = self._plant
        if plant is None or plant.table != "thread_index" or plant.column != "thread_id":
            return []
        return [] if plant.text else [quote(plant.value)]

    def _delete_item(self, store: Any) -> None:
        assert self._plant is not None
        row = {**self._row, self._plant.column: self._plant.value}
        labels = tuple(row["namespace"].split("."))
        if all(labels):
            store.delete(labels, row["key"])
