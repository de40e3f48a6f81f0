"""`/ready`: 200 while runs can be stored, 503 where they can't, on every saver."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver, JsonlSaver, PostgresSaver, SqliteSaver
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.errors import StorageError
from actorgraph.stores import InMemoryStore, SqliteStore
from actorgraph.web import GraphRoutes
from actorgraph.web.endpoints import readiness
from tests.support.gates import PATIENCE_S
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import proxied
from tests.web.apps import GRAPHS


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch):
    """An answer holds for no time, so that the next question is a look."""
    monkeypatch.setattr(readiness, "FRESH_S", 0)


@asynccontextmanager
async def asking(
    saver: Any, store: Any = None, dispatcher: Any = None
) -> AsyncIterator[Callable[[], Any]]:
    """A function that asks a server over a saver whether it is ready."""
    graphs = {"log": GRAPHS["log"].compile(checkpointer=saver)}
    kept = store or InMemoryStore()
    # No renewal of the lease, a commit, comes meanwhile.
    system = ActorSystem(graphs, saver=saver, store=kept, dispatcher=dispatcher, lease_s=3600)
    transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
    with anyio.fail_after(PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:

            async def ask() -> tuple[int, str]:
                answer = await client.get("/ready")
                return answer.status_code, answer.text

            yield ask


READY = (200, '{"ok":true}')
NOT = (503, '{"detail":"The storage is unavailable"}')


class TestFiles:
    @pytest.mark.parametrize(
        ("make", "goes"),
        [
            (SqliteSaver, "deep/runs"),
            (SqliteSaver, "deep"),
            (JsonlSaver, "deep/runs"),
            (JsonlSaver, "deep"),
        ],
    )
    async def test_a_server_without_its_file_is_not_ready(self, make, goes, tmp_path):
        """
        A server whose file or folder is gone is not ready, and is again when it is back; the
        answer, which needs no permission, names no place.
        """
        (tmp_path / "deep").mkdir()
        async with asking(make(tmp_path / "deep" / "runs")) as ask:
            before = await ask()
            (tmp_path / goes).rename(tmp_path / "away")
            without = await ask()
            (tmp_path / "away").rename(tmp_path / goes)

            assert (before, without, await ask()) == (READY, NOT, READY)

    @pytest.mark.parametrize("make", [SqliteSaver, JsonlSaver])
    async def test_another_one_in_its_place_is_not_ready(self, make, tmp_path):
        """
        A file or folder that was put where the open one had been is not taken for it.
        """
        async with asking(make(tmp_path / "runs")) as ask:
            _replace(tmp_path / "runs")

            assert await ask() == NOT

    async def test_the_stores_file_counts_too(self, tmp_path):
        """
        Without the file in which threads are registered a server is not ready either.
        """
        store = SqliteStore(tmp_path / "threads.db")
        async with asking(InMemorySaver(), store) as ask:
            before = await ask()
            (tmp_path / "threads.db").rename(tmp_path / "away")

            assert (before, await ask()) == (READY, NOT)

    async def test_a_failed_commit_counts_too(self, tmp_path):
        """
        A saver that takes no more saves, because one has failed, is not ready, though it reads.
        """
        saver = SqliteSaver(tmp_path / "runs.db")
        async with asking(saver) as ask:
            (tmp_path / "runs.db").rename(tmp_path / "away")
            with pytest.raises(Exception, match=r"removed|outcome unknown"):
                await saver.adelete_thread("t")
            (tmp_path / "away").rename(tmp_path / "runs.db")

            assert await ask() == NOT


END_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'actorgraph' AND pid <> pg_backend_pid()
"""


class TestOthers:
    async def test_memory_is_ready(self):
        """
        Data kept in memory is there.
        """
        async with asking(InMemorySaver()) as ask:
            assert await ask() == READY

    async def test_a_database_server_that_is_away(
        self, postgres: PostgresServer, lent: str, monkeypatch
    ):
        """
        A server whose PostgreSQL can't be reached is not ready, and is again when it can be.
        """
        with proxied(postgres.socket) as proxy:
            saver = PostgresSaver(proxy.url, schema=lent, reconnect_timeout_s=0.1)
            async with asking(saver) as ask:
                before = await ask()
                monkeypatch.setattr(readiness, "PATIENCE_S", 0.2)
                proxy.stall()
                silent = await ask()
                proxy.resume()
                answers = [before, silent, await ask()]
                while answers[-1] != READY:  # connections that were cut are found one by one
                    answers.append(await ask())

                assert answers[:2] == [READY, NOT]

    @pytest.mark.parametrize("ends", [True, False], ids=["ended", "kept"])
    async def test_a_database_server_that_takes_no_writes(
        self, postgres: PostgresServer, lent: str, ends: bool
    ):
        """
        A server whose PostgreSQL takes no writes, as a replica, is not ready; when it does again,
        the sessions that could only read are gone, and runs are stored.
        """
        saver = PostgresSaver(postgres.url, schema=lent, reconnect_timeout_s=0.1)
        async with asking(saver) as ask:
            answers = [await ask()]
            with postgres.connect() as db:
                db.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
                try:
                    if ends:
                        db.execute(END_SESSIONS)
                        answers += [await ask(), await ask()]
                        with pytest.raises(StorageError, match="refused to write"):
                            await saver.adelete_thread("t")
                finally:
                    db.execute("SET default_transaction_read_only = off")
                    db.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
            answers.append(await ask())
            await saver.adelete_thread("t")

            assert answers == [READY, NOT, NOT, READY] if ends else [READY, READY]

    async def test_a_readiness_check_has_a_time_limit(self, monkeypatch):
        """
        A storage that doesn't answer is not ready; however many ask, it is asked once.
        """
        monkeypatch.setattr(readiness, "PATIENCE_S", 0.01)
        store = Silent()
        async with asking(InMemorySaver(), store) as ask:
            answers = [await ask() for _ in range(3)]
            store.speaks.set()
            while store.waits:
                await anyio.lowlevel.checkpoint()

            assert answers == [NOT] * 3
            assert store.asked == 1
            assert await ask() == READY


class Silent(InMemoryStore):
    """A store that answers when it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.speaks = anyio.Event()
        self.asked = self.waits = 0

    async def aget(self, *args: Any, **options: Any) -> Any:
        self.asked += 1
        self.waits += 1
        await self.speaks.wait()
        self.waits -= 1
        return await super().aget(*args, **options)


def _replace(path: Path) -> None:
    """Another file, or folder, of the same content under the same name."""
    copy = path.with_name("copy")
    if path.is_dir():
        shutil.copytree(path, copy)
        shutil.rmtree(path)
    else:
        shutil.copy(path, copy)
        path.unlink()
    copy.rename(path)


class TestDispatchers:
    async def test_an_engine_that_is_away_is_a_detail(self, monkeypatch):
        """
        A server whose dispatcher's engine doesn't answer is ready, since it stores runs, and its
        answer says so.
        """
        monkeypatch.setattr(InMemoryDispatcher, "open", _refuse)
        async with asking(InMemorySaver(), dispatcher=InMemoryDispatcher()) as ask:
            away = await ask()
            monkeypatch.undo()
            monkeypatch.setattr(readiness, "FRESH_S", 0)
            while (there := await ask()) == away:  # noqa: ASYNC110 - asks a server
                await anyio.sleep(0.05)

        assert away == (200, '{"ok":true,"dispatch":"away"}')
        assert there == (200, '{"ok":true,"dispatch":"ok"}')


async def _refuse(*_: Any) -> Any:
    raise StorageError("the engine is away", do="wait")
