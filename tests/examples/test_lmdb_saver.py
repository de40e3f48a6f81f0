"""examples/lmdb_saver: a saver over a database that the library doesn't know.

It keeps the whole contract, and graphs, systems, the web layer, the studio and the command take it
as they take the library's own.
"""

import json
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module

import anyio
import httpx
import pytest

from actorgraph.cli.command_line import main
from actorgraph.errors import SaverClosedError, StorageError, StorageFullError
from actorgraph.studio import Studio
from actorgraph.testing import CHECKS, check_killed_worker
from actorgraph.web import GraphRoutes, running
from tests.support.graphs import ab, at
from tests.support.source_files import ROOT

pytest.importorskip("lmdb", reason="lmdb is not installed: pip install '.[dev]'")

LmdbSaver = import_module("lmdb_saver.saver").LmdbSaver
Maker = import_module("lmdb_saver.__main__").Maker
EXAMPLES = ROOT / "examples"
TOKEN = "t0ken"  # noqa: S105 - of a test
NAME = "lmdb_saver.app:make_saver"


@pytest.fixture
def app(tmp_path, monkeypatch):
    """
    The program of the example, over an empty folder.
    """
    monkeypatch.setenv("LMDB_FOLDER", str(tmp_path / "orders.lmdb"))
    monkeypatch.syspath_prepend(EXAMPLES)
    return import_module("lmdb_saver.app")


@asynccontextmanager
async def place_of(folder):
    """The place of a folder, for checks."""
    yield Maker(str(folder))


async def ask(system):
    """Run an order until it waits for an answer."""
    run = await system.start("orders", "order-1", {"done": []})
    assert await run.wait() == "interrupted"


class TestTheContract:
    @pytest.mark.one_loop
    @pytest.mark.parametrize("group", ["rows", "runs", "claims", "lists", "deltas", "reopen"])
    async def test_it_is_kept(self, tmp_path, group):
        """
        Every check of rows, runs and claims passes, and none is left out.
        """
        for number, check in enumerate(c for c in CHECKS if c.group == group):
            assert await check(partial(place_of, tmp_path / str(number))) is None

    @pytest.mark.long  # it fails each operation in its turn
    async def test_it_is_kept_whole(self, tmp_path):
        """
        Every check passes and none is left out, those of hostile ids and failures too.
        """
        for number, check in enumerate(CHECKS):
            assert await check(partial(place_of, tmp_path / str(number))) is None

    @pytest.mark.long  # it waits for the lease of the killed process
    async def test_a_run_of_a_killed_worker_is_taken_over(self, app):
        """
        A process is killed in the middle of a run, which this one ends, repeating no step.
        """
        assert app.graph.name == "orders"  # the other process imports it too

        await check_killed_worker(NAME)


class TestTheSaver:
    async def test_savers_of_one_process_share_a_folder(self, tmp_path):
        """
        A system and a graph over two savers of one folder see each other's threads.
        """
        one, two = (ab(LmdbSaver(tmp_path / "db")) for _ in range(2))

        async with one.checkpointer, two.checkpointer:
            await one.ainvoke({"foo": "", "bar": []}, at())
            assert (await two.aget_state(at())).values["bar"] == ["a", "b"]

    async def test_a_full_folder_is_an_error(self, tmp_path):
        """
        A save that doesn't fit is refused with the size; the threads that are there can be read.
        """
        saver = ab(LmdbSaver(tmp_path / "db", size=1 << 20)).checkpointer
        async with saver:
            graph = ab(saver)
            await graph.ainvoke({"foo": "", "bar": []}, at())
            with pytest.raises(StorageFullError, match="1,048,576 bytes"):
                await graph.ainvoke({"foo": "x" * (1 << 20), "bar": []}, at("large"))
            assert (await graph.aget_state(at())).values["bar"] == ["a", "b"]

    async def test_a_folder_that_is_none_is_an_error(self, tmp_path):
        """
        Where a file is, no folder can be made; a closed saver says that it is closed.
        """
        (tmp_path / "db").write_text("")

        with pytest.raises(StorageError, match="can't be opened"):
            await LmdbSaver(tmp_path / "db").open()
        with pytest.raises(SaverClosedError, match="is closed"):
            await LmdbSaver(tmp_path / "other").query([])


class TestServing:
    async def test_the_web_layer_takes_it(self, app):
        """
        A thread is read, answered and run to its end over HTTP.
        """
        system = app.make_system()
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with running(system), httpx.AsyncClient(transport=transport) as client:
            await ask(system)
            url = "http://127.0.0.1/threads/order-1"
            state = (await client.get(f"{url}/state")).json()
            given = {"assistant_id": "orders", "command": {"resume": "ada"}}
            ended = await client.post(f"{url}/runs/wait", json=given)

        assert state["next"] == ["approve"]
        assert ended.json()["done"] == ["reserved", "approved by ada", "shipped"]

    async def test_the_studio_takes_it(self, app):
        """
        Its pages show the thread, its question and its run.
        """
        system = app.make_system()
        transport = httpx.ASGITransport(Studio(system, token=TOKEN))
        client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", follow_redirects=True
        )
        async with running(system), client:
            await ask(system)
            await client.get(f"/?token={TOKEN}")
            pages = [(await client.get(p)).text for p in ("/threads", "/threads/order-1", "/runs")]

        assert ["order-1" in page for page in pages] == [True, True, True]
        assert "Who approves?" in pages[1]


@pytest.fixture
def stored(app, monkeypatch):
    """
    A folder with a thread that waits, and the working directory in which the program is found.
    """
    monkeypatch.chdir(EXAMPLES)

    async def fill():
        async with app.make_system() as system:
            await ask(system)

    anyio.run(fill)


class TestTheCommand:
    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (("threads",), "order-1"),
            (("show", "order-1"), "Who approves?"),
            (("history", "order-1"), "approve"),
            (("check", "lmdb_saver.app:graph"), "1 go on"),
            (("doctor",), f"examined database {NAME}"),
            (("backup", "orders.db"), "LmdbSaver can't be backed up"),
            (("export", "--thread", "order-1"), "order-1"),
        ],
        ids=lambda given: given[0] if isinstance(given, tuple) else "",
    )
    def test_it_takes_its_name(self, stored, capsys, words, text):
        """
        `--db module:saver` is a database for every command that looks at one.
        """
        main([*words, "--db", NAME])

        captured = capsys.readouterr()
        assert text in captured.out + captured.err

    def test_doctor_asks_the_saver_of_a_graph(self, stored, capsys):
        """
        A program's own saver is asked, not its attributes: its threads and runs are examined.
        """
        assert main(["doctor", "lmdb_saver.app:graph", "--json"]) == 0

        found = json.loads(capsys.readouterr().out)
        assert found == {"examined": ["graph orders", "database LmdbSaver"], "findings": []}

    def test_a_saver_that_fails_is_a_finding(self, stored, capsys, monkeypatch, tmp_path):
        """
        Doctor reports a saver that can't be opened, with its error.
        """
        monkeypatch.setenv("LMDB_FOLDER", str(tmp_path / "file"))
        (tmp_path / "file").write_text("")

        assert main(["doctor", "--db", NAME]) == 1
        assert "can't be opened" in capsys.readouterr().out
