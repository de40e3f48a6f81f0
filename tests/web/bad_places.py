"""Databases of a server that two clients have filled, to damage what one of them has."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from structlog.testing import capture_logs

from actorgraph import JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.stores import PostgresStore, SqliteStore
from tests.web.bad_site import INDEX, LASTING, WHO, Asked, Late, Site, opened
from tests.web.planted_files import Folder
from tests.web.planted_rows import BAD, OF_ALL, Database, Schema, of_the_bad, plants


class BadPlace:
    """A saver's and a store's databases.

    Args:
        kind: "sqlite", "postgres" or "jsonl".
        folder: for files.
        server: of PostgreSQL, with a schema for each.
    """

    def __init__(self, kind: str, folder: Any, server: Any = None) -> None:
        self.kind = kind
        self._folder, self._server = folder, server
        self.schemas = [] if server is None else [server.new_schema("bad") for _ in range(2)]
        self.databases: list[Any] = [
            Folder(folder / "runs") if kind == "jsonl" else Database(folder / "runs.db"),
            Database(folder / "items.db"),
        ]
        if server is not None:
            self.databases = [
                Schema(lambda name=name: server.connect(name)) for name in self.schemas
            ]
        self.made: dict[str, dict[str, Any]] = {}

    @asynccontextmanager
    async def site(self) -> AsyncIterator[Site]:
        """A server, as a new process would open it."""
        options: dict[str, Any] = {"index": INDEX, "ttl": LASTING}
        saver: Any
        store: Any
        if self._server is None:
            jsonl = self.kind == "jsonl"
            saver = JsonlSaver(self._folder / "runs") if jsonl else SqliteSaver(self.address)
            store = SqliteStore(self._folder / "items.db", **options)
        else:
            saver = PostgresSaver(self._server.url, schema=self.schemas[0])
            store = PostgresStore(self._server.url, schema=self.schemas[1], **options)
        async with opened(saver, store) as site:
            yield site

    async def fill(self) -> None:
        """Make what two clients have; a run of each is left in the middle."""
        Late.filling = True
        try:
            with capture_logs():
                await self._fill()
        finally:
            Late.filling = False
        for database in self.databases:
            database.keep()

    async def _fill(self) -> None:
        async with self.site() as site:
            self.made = {who: await site.fill(who) for who in WHO}
            await site.system.threads()  # writes the index

    async def asked(self, only: Any = lambda _: True) -> Asked:
        """The answers of a new server."""
        with capture_logs() as log:
            async with self.site() as site:
                found = Asked(site, self.made)
                await found.everything(only)
        found.log = [one for one in log if one["log_level"] in {"warning", "error"}]
        return found

    @property
    def address(self) -> str:
        """Of the saver's database, as commands take it."""
        if self._server is None:
            return str(self._folder / "runs.db")
        url = self._server.url
        return f"{url}{'&' if '?' in url else '?'}schema={self.schemas[0]}"

    def park(self) -> None:
        """Give up the runs that were left in the middle, for `restore` too."""
        saver = self.databases[0]
        self.restore()
        with saver.connected() as db:
            db.execute(
                "UPDATE system_runs SET status = 'parked', reason = 'no worker' "
                "WHERE thread_id LIKE '%-late'"
            )
        saver.keep()

    def restore(self) -> None:
        """Put everything back."""
        for database in self.databases:
            database.restore()

    def tables(self) -> list[tuple[Any, str]]:
        """The tables that hold rows of one thread or item."""
        return [(d, t) for d in self.databases for t in d.tables() if t not in OF_ALL]

    def plants(self, database: Any, table: str) -> Iterator[tuple[Any, Any]]:
        """Each change to a table's rows of the bad client, with a row for it."""
        if isinstance(database, Folder):
            yield from database.plants(table)
            return
        rows = of_the_bad(database, table, {BAD, self.made[BAD]["cron_id"]})
        yield from plants(database, table, rows)
