"""Searching the runs of an ActorSystem, and reading their arguments."""

from datetime import UTC, datetime, timedelta

import pytest

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError, SqliteSaver
from tests.support.graphs import in_a_row, writer

GIVEN = {"bar": ["in"]}


async def ended(system, thread):
    run = await system.start("g", thread, GIVEN, durability="exit", metadata={"by": thread})
    await run.result()
    return run


class TestSearchRuns:
    async def test_pages_are_continued_with_a_cursor(self):
        """
        Each run comes once, newest first; the last page has no cursor.
        """
        async with ActorSystem({"g": in_a_row({"a": writer("a")})}) as system:
            runs = [await ended(system, f"t{n}") for n in range(5)]
            pages, cursor = [], None
            while not pages or cursor:
                page = await system.search_runs(limit=2, cursor=cursor)
                pages.append([run.id for run in page.runs])
                cursor = page.cursor
            some = await system.search_runs(["success"], thread_prefix="t3")
            past = await system.search_runs(since=datetime.now(UTC) + timedelta(days=1))

        ids = [run.id for run in reversed(runs)]
        assert pages == [ids[:2], ids[2:4], ids[4:]]
        assert [run.id for run in some.runs] == [runs[3].id]
        assert past.runs == []

    async def test_runs_of_later_times_come_last(self):
        """
        Each run comes once, whatever the size of the pages, and also if it was cancelled early.
        """
        async with ActorSystem(
            {"g": in_a_row({"a": writer("a")})}, saver=InMemorySaver()
        ) as system:
            late = [
                await system.start("g", f"l{n}", GIVEN, delay_s=3600.0 * n) for n in range(1, 4)
            ]
            await late[1].cancel()
            runs = [await ended(system, f"t{n}") for n in range(3)]
            for limit in (1, 2, 3, 4, 6, 9):
                ids, cursor, pages = [], None, 0
                while cursor or not pages:
                    page = await system.search_runs(limit=limit, cursor=cursor)
                    ids += [run.id for run in page.runs]
                    cursor, pages = page.cursor, pages + 1
                assert ids == [run.id for run in (*reversed(runs), *reversed(late))]
            (cancelled,) = (await system.search_runs(["cancelled"])).runs

        assert cancelled.id == late[1].id

    async def test_bad_arguments_are_refused(self):
        """
        An unknown status, a limit out of range, a time without zone and a wrong cursor raise.
        """
        async with ActorSystem({"g": in_a_row({"a": writer("a")})}) as system:
            for bad in (
                {"statuses": ["sucess"]},
                {"limit": 0},
                {"since": datetime(2026, 1, 1)},  # noqa: DTZ001
                {"cursor": "x"},
            ):
                with pytest.raises(InvalidConfigError):
                    await system.search_runs(**bad)


class TestArguments:
    async def test_input_and_options_are_read_by_any_system(self, tmp_path):
        """
        A run's input is readable in its own system, and in one that opens the file later.
        """
        graph = in_a_row({"a": writer("a")})
        async with ActorSystem({"g": graph}, saver=SqliteSaver(tmp_path / "runs.db")) as system:
            run = await ended(system, "t")
            own = await run.arguments()
        async with ActorSystem({"g": graph}, saver=SqliteSaver(tmp_path / "runs.db")) as system:
            (stored,) = (await system.search_runs()).runs
            other = await stored.arguments()
            given = await stored.input()
            owners = await system.owners()

        assert own == other
        assert given == GIVEN
        assert (own.options["durability"], own.lacks) == ("exit", "")
        assert [(owner.is_this, owner.alive, owner.runs) for owner in owners] == [(True, True, 0)]

    async def test_a_run_knows_when_it_started(self):
        """
        A run has the time at which it got its thread, between its acceptance and its end.
        """
        graph = in_a_row({"a": writer("a")})
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            run = await ended(system, "t")

        assert run.created_at <= run.started_at <= run.updated_at
        assert run.due_at is None
