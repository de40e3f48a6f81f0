"""Systems whose dispatcher's engine is away, silent, or full of hints of nothing."""

import os
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from actorgraph import ActorSystem, InMemorySaver, StorageError
from actorgraph.dispatch import InMemoryDispatcher, NATSDispatcher
from actorgraph.runtime.system.engine_link import EngineLink
from actorgraph.values.dispatch import Hint
from tests.dispatch.fleet import soon
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.graphs import in_a_row, writer

LINK = "actorgraph.runtime.system.engine_link"


class Engine:
    """A dispatcher whose engine goes away.

    Attributes:
        mode: "there"; "away": calls fail; "silent": they never return; "flood": `take` has hints
            of unknown runs alone.
        opened: how many links were opened.
        refused: how often it was away when there was news of events.
    """

    in_commit = False

    def __init__(self) -> None:
        self.inner = InMemoryDispatcher()
        self.mode = "there"
        self.opened = self.refused = 0

    async def open(self, saver, heard):
        await self.answer()
        self.opened += 1
        return Link(self, await self.inner.open(saver, heard))

    async def answer(self):
        """Answer as the mode says."""
        if self.mode == "away":
            raise StorageError("the engine is away", do="wait")
        if self.mode == "silent":
            await anyio.sleep_forever()


class Link:
    """A link to such an engine."""

    unreadable = 3

    def __init__(self, engine, inner) -> None:
        self.engine, self.inner = engine, inner

    async def close(self):
        await self.engine.answer()
        await self.inner.close()

    async def announce(self, hints):
        await self.engine.answer()
        await self.inner.announce(hints)

    async def take(self, queues, limit):
        await self.engine.answer()
        if self.engine.mode == "flood":
            await anyio.lowlevel.checkpoint()
            return [Hint(os.urandom(16), queues[0]) for _ in range(limit)]
        return await self.inner.take(queues, limit)

    async def settle(self, hints):
        await self.engine.answer()
        await self.inner.settle(hints)

    async def release(self, hints):
        await self.engine.answer()
        await self.inner.release(hints)

    async def publish(self, news):
        if self.engine.mode == "away" and news.stored:
            self.engine.refused += 1
        await self.engine.answer()
        await self.inner.publish(news)


@pytest.fixture
async def engine(monkeypatch):
    """
    An engine that is there; looks at it are frequent.
    """
    for name, seconds in (("PROBE_S", 0.05), ("AGAIN_S", 0.05), ("CLOSE_S", 0.1), ("OPEN_S", 0.1)):
        monkeypatch.setattr(f"{LINK}.{name}", seconds)
    monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.FLUSH_S", 0.1)
    monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.NEW_S", 0.1)
    return Engine()


@pytest.fixture
async def saver():
    """
    A saver in memory, open.
    """
    async with InMemorySaver() as opened:
        yield opened


def system(engine, saver, role="both"):
    """Make a system of one graph, "g"."""
    graphs = {"g": in_a_row({"a": writer("a")})}
    return ActorSystem(graphs, saver=saver, dispatcher=engine, role=role, lease_s=0.6)


@pytest.mark.parametrize("mode", ["away", "silent", "flood"])
class TestRuns:
    async def test_they_are_accepted_and_run(self, engine, saver, mode):
        """
        A start returns when the run is stored, and a worker finds the run without a hint.
        """
        async with system(engine, saver, "accept") as web, system(engine, saver, "work"), soon():
            engine.mode = mode
            with anyio.fail_after(PATIENCE_S / 2):
                run = await web.start("g", "t", {"bar": []})
            await run.wait()

            assert run.status == "success"
        engine.mode = "there"

    async def test_a_cancellation_does_not_wait(self, engine, saver, mode):
        """
        A run that waits for a worker is cancelled without the engine.
        """
        async with system(engine, saver, "accept") as web, soon():
            engine.mode = mode
            run = await web.start("g", "t", {"bar": []})
            await run.cancel()
            await run.wait()

            assert run.status == "cancelled"


class TestAbsence:
    async def test_it_is_a_figure_and_two_log_lines(self, engine, saver, caplog):
        """
        However many calls fail: one line when it goes away, one when it is back.
        """
        caplog.set_level("INFO", "actorgraph")
        async with system(engine, saver, "accept") as web, soon():
            engine.mode = "away"
            while not web.statistics().dispatch.away_s:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.01)
            for number in range(5):
                await web.start("g", f"t{number}", {"bar": []})
            await anyio.sleep(0.2)
            engine.mode = "there"
            while web.statistics().dispatch.away_s:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.01)

        names = [record.message.split()[0] for record in caplog.records]
        assert names.count("dispatch.away") == 1
        assert names.count("dispatch.back") == 1
        assert "dispatch.failed" not in names

    async def test_a_worker_hears_of_its_end(self, engine, saver):
        """
        A worker whose `take` failed and then waits counts its engine as there.
        """
        async with system(engine, saver, "work") as worker, soon():
            engine.mode = "away"
            engine.inner.put([Hint(b"?" * 16, "g")])  # ends the call that waits
            while not worker.statistics().dispatch.away_s:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.01)
            engine.mode = "there"
            while worker.statistics().dispatch.away_s:  # noqa: ASYNC110 - of another task
                await anyio.sleep(0.01)
            engine.inner.put([Hint(b"?" * 16, "g")])

            assert worker.statistics().dispatch.away_s == 0

    @pytest.mark.parametrize("mode", ["away", "silent"])
    async def test_a_system_opens_and_closes_all_the_same(self, engine, saver, mode):
        """
        It is linked when the engine is there, and an error of the link's end is not raised.
        """
        engine.mode = mode
        async with system(engine, saver) as opened, soon():
            run = await opened.start("g", "t", {"bar": []})
            await run.wait()
            engine.mode = "there"
            while not engine.opened:  # noqa: ASYNC110 - by another task
                await anyio.sleep(0.01)
            engine.mode = mode

        assert (run.status, engine.opened) == ("success", 1)

    async def test_news_that_it_did_not_take_follow_later(self, engine, saver, monkeypatch):
        """
        An event that was stored while the engine was away wakes its readers when it is back.
        """
        monkeypatch.setattr("actorgraph.rules.system.dispatching.LOOK_S", 600.0)
        monkeypatch.setattr("actorgraph.runtime.system.dispatch_actor.RETRY_S", 0.01)
        first, second = Turnstile({"bar": ["a"]}), Turnstile({"bar": ["b"]})
        graphs = {"g": in_a_row({"a": first, "b": second})}
        worker = ActorSystem(graphs, saver=saver, dispatcher=engine, role="work")

        async def one_update(run):
            async with run.events() as events:
                async for event in events:
                    if event.kind == "updates":
                        return

        async with system(engine, saver, "accept") as web, worker, soon():
            run = await web.start("g", "t", {"bar": []}, stream_mode="updates")
            async with anyio.create_task_group() as group:
                group.start_soon(one_update, run)
                await first.entered.wait()
                await settled()
                engine.mode = "away"
                first.out.set()
                while not engine.refused:  # noqa: ASYNC110 - published by a task
                    await anyio.sleep(0.01)
                engine.mode = "there"

            assert not second.out.is_set()
            second.out.set()

    def test_a_link_that_is_deaf_brings_no_news(self):
        """
        A link that answers, and says of itself that it hears nothing, brings no news.
        """
        link = EngineLink(Engine(), InMemorySaver(), lambda _: None)
        assert link.brings_news
        link._link = cast("Any", SimpleNamespace(is_deaf=True))  # noqa: SLF001 - as if opened

        assert not link.brings_news

    async def test_dropped_messages_are_counted(self, engine, saver, caplog):
        """
        The messages that a link has dropped are a figure of the system, and logged when it grows.
        """
        async with system(engine, saver) as opened, soon():
            while "dispatch.unreadable dropped=3" not in caplog.text:  # noqa: ASYNC110 - by a task
                await anyio.sleep(0.01)

            assert opened.statistics().dispatch.unreadable == 3
        assert caplog.text.count("dispatch.unreadable") == 1

    async def test_a_system_that_ends_announces_its_last_runs(self, engine, saver):
        """
        A run that was accepted in the last moment has a hint.
        """
        async with system(engine, saver, "accept") as web:
            run = await web.start("g", "t", {"bar": []})

        (entry,) = engine.inner.queues["g"]
        assert entry[2].run.hex() in run.id.replace("-", "")

    async def test_nats_is_waited_for_a_moment_only(self, saver, monkeypatch):
        """
        A link to a server that is not there ends with StorageError, and leaves nothing running.
        """
        monkeypatch.setattr("actorgraph.dispatch.nats.CONNECT_S", 0.2)
        link = EngineLink(NATSDispatcher("nats://127.0.0.1:1"), saver, lambda _: None)
        monkeypatch.setattr(f"{LINK}.OPEN_S", PATIENCE_S)
        with anyio.fail_after(PATIENCE_S):
            await link.open()
            with pytest.raises(StorageError, match="could not be reached"):
                await link.announce([])
            await link.close()

        assert link.is_away
