"""Tokens to many clients: what the benchmark counts, and how it judges. Figures aren't tested."""

import asyncio
import contextlib
import json
import sqlite3

import pytest

from tests.bench import (
    charts,
    goal_rows,
    goals,
    libraries,
    pages,
    token_figures,
    token_graphs,
    token_load,
    worker,
)
from tests.bench.catalogue import FLOOR, RIVAL, SUBJECT
from tests.bench.token_load import Answer

CASES = {case.name: case for case in token_figures.CASES}

ALL = {"clients": 2, "finished": 2}
RUNS = {
    "custom": {
        FLOOR: [{**ALL, "cpu_us": 80, "first_p50_s": 0.2, "first_p99_s": 0.4}],
        SUBJECT: [
            {**ALL, "cpu_us": cpu, "first_p50_s": 0.3, "first_p99_s": 0.9}
            for cpu in (100, 120, 900)
        ],
        RIVAL: [{**ALL, "cpu_us": 360, "finished": 1}],
    },
    "messages": {SUBJECT: [{**ALL, "cpu_us": 190, "disk_bytes": 30_000}]},
    "messages-stored": {SUBJECT: [{**ALL, "cpu_us": 250, "disk_bytes": 32_000}]},
}


def document_of(runs, *, quick=False, **more):
    """Figures of tokens as they are stored."""
    settings = {"tokens": 40, "pace_s": 0.02, "quick": quick}
    base = {"settings": settings, "facts": {"cores": 2}, "runs": runs, "curve": []}
    return json.loads(json.dumps({**base, **more}))


def served(*lines):
    """A server's answer, in parts as they are read."""
    return [line.encode() for line in lines]


async def read(parts, *, ends=None):
    """What a client makes of a body that comes in these parts."""
    reader = asyncio.StreamReader()
    reading = token_load.Reading(ends)
    for part in parts:
        reader.feed_data(part)
        await asyncio.sleep(0)
    reader.feed_eof()
    return await reading.read(reader)


class TestFigures:
    """`token_figures.figures_of`: one load, counted."""

    def test_cpu_is_counted_of_each_token(self):
        """
        The server's CPU is divided by the tokens of all answers, and so are the bytes.
        """
        answers = [Answer(0.1, 1.0, 4000, 40), Answer(0.3, 1.2, 4400, 41)]

        found = token_figures.figures_of(
            answers, CASES["custom"], tokens=40, cpu_s=0.016, memory=4096
        )

        assert found["cpu_us"] == pytest.approx(200)
        assert found["bytes"] == 105
        assert (found["first_p50_s"], found["first_p99_s"], found["wall_s"]) == (0.3, 0.3, 1.2)
        assert found["memory_kb"] == 2

    def test_an_answer_that_lacks_a_token_is_lost(self):
        """
        Clients that failed and answers with fewer tokens aren't finished, and add no figures.
        """
        answers = [Answer(0.1, 1.0, 4000, 40), Answer(9.0, 9.0, 10, 39), OSError("refused")]

        found = token_figures.figures_of(answers, CASES["custom"], tokens=40, cpu_s=1, memory=0)

        assert (found["clients"], found["finished"], found["wall_s"]) == (3, 1, 1.0)
        assert token_figures.lost(document_of({"custom": {SUBJECT: [found]}})) == 2

    def test_a_run_without_tokens_is_one_unit(self):
        """
        Where no tokens are written the CPU is a run's.
        """
        answers = [Answer(0.1, 0.1, 100, 0)] * 4

        found = token_figures.figures_of(answers, CASES["silent"], tokens=40, cpu_s=0.02, memory=0)

        assert found["cpu_us"] == pytest.approx(5000)

    def test_nothing_is_counted_of_a_load_that_no_client_finished(self):
        """
        A server that answers none has no CPU a token.
        """
        found = token_figures.figures_of(
            [OSError("refused")], CASES["custom"], tokens=40, cpu_s=1, memory=0
        )

        assert found == {"clients": 1, "finished": 0}

    @pytest.mark.parametrize(("share", "value"), [(0.5, 51), (0.99, 100), (0.0, 1)])
    def test_a_quantile_is_one_of_the_values(self, share, value):
        """
        Of a hundred values the 99th percentile is the largest one.
        """
        assert token_figures.quantile(range(100, 0, -1), share) == value


class TestJudging:
    """`token_figures`: tables and goals of the stored figures."""

    def test_ratios_are_of_medians_of_the_same_measurement(self):
        """
        One slow repetition decides nothing: 120 us are 1.5 times the floor, a third of LangGraph's.
        """
        found = token_figures.numbers(document_of(RUNS))

        assert found["custom: floor"] == (1.5,)
        assert found["custom: ahead"] == (3,)
        assert found["first"] == pytest.approx((1.5, 2.25))

    def test_stored_bytes_are_what_resumable_runs_add(self):
        """
        Checkpoints are in both databases: the events are the difference.
        """
        assert token_figures.numbers(document_of(RUNS))["disk"] == (2000,)

    def test_pages_that_rows_have_left_are_not_counted(self, tmp_path):
        """
        A database that has deleted its rows uses less, though its file is as large as before.
        """
        path = tmp_path / "runs.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE events (data BLOB)")
            connection.execute("INSERT INTO events VALUES (zeroblob(1000000))")
            connection.commit()
            full = token_figures.used_bytes(path)
            connection.execute("DELETE FROM events")
            connection.commit()

        assert full > 1_000_000
        assert token_figures.used_bytes(path) < 20_000 < path.stat().st_size
        assert token_figures.used_bytes(tmp_path / "none.db") == 0

    def test_every_goal_has_its_verdict(self):
        """
        Each goal has a row; one without figures says that it wasn't measured.
        """
        found = token_figures.numbers(document_of(RUNS))

        said = {row[0]: row[-1] for row in goal_rows.rows(token_figures.GOALS, found)}

        assert len(said) == len(token_figures.GOALS)
        assert said["`custom`, CPU a token: of the floor's"] == "reached"
        assert said["`custom`, first token p50 / p99: of the floor's"] == "not reached"
        assert said["the streaming protocol: CPU us a token"] == "not measured"

    def test_every_goal_has_numbers(self):
        """
        A document with all figures has a number for each bar of each goal, and for nothing else.
        """
        figures = dict.fromkeys(
            ("cpu_us", "first_p50_s", "first_p99_s", "bytes", "memory_kb", "disk_bytes"), 1
        )
        figures |= {"delay_p99_ms": 1, "clients": 1, "finished": 1}
        runs = {case.name: {side: [figures] for side in case.sides} for case in CASES.values()}
        document = document_of(runs, in_process={"cpu_us": {SUBJECT: 1}})

        found = token_figures.numbers(document)

        bars = {goal.name: len(goal.bars) for goal in token_figures.GOALS}
        assert {name: len(each) for name, each in found.items()} == bars

    def test_a_line_has_both_ratios(self):
        """
        The table compares each case with the floor, and with LangGraph where that has the case.
        """
        lines = token_figures.figures_table(document_of(RUNS))

        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
        assert rows[1][:5] == ["`custom`", "actorgraph", "120", "1.5x", "3x"]
        assert rows[2][-2:] == ["50%", "1"]
        assert len(rows) == 5

    def test_a_case_with_a_floor_of_its_own_is_compared_with_that(self):
        """
        A thousand clients are compared with the floor's thousand clients.
        """
        runs = {**RUNS, "crowd": {FLOOR: [{**ALL, "cpu_us": 40}], SUBJECT: [{**ALL, "cpu_us": 80}]}}

        last = token_figures.figures_table(document_of(runs))[-1]

        assert [cell.strip() for cell in last.split("|")[2:5]] == ["actorgraph", "80", "2x"]

    def test_tokens_of_one_process_have_lines_too(self):
        """
        They have the CPU of a token, and how many times ours LangGraph's is.
        """
        side = {"cpu_us": {SUBJECT: 10, RIVAL: 40}, "runs": {SUBJECT: [{}], RIVAL: [{}]}}

        lines = token_figures.figures_table(document_of(RUNS, in_process=side))[-2:]

        rows = [[cell.strip() for cell in line.split("|")[1:6]] for line in lines]
        assert rows == [
            ["`custom` in one process", "actorgraph", "10.0", "-", "4x"],
            ["`custom` in one process", "LangGraph", "40.0", "-", "-"],
        ]

    def test_names_of_cases_are_unique(self):
        """
        Figures are found by the names of cases and goals.
        """
        assert len(CASES) == len(token_figures.CASES)
        assert len({goal.name for goal in token_figures.GOALS}) == len(token_figures.GOALS)


class TestClients:
    """`token_load`: what a client reads."""

    def test_tokens_and_bytes_are_those_of_the_body(self):
        """
        A token that is cut between two parts counts once.
        """
        answer = asyncio.run(read(served('data: "tok0 "\n\nda', 'ta: "to', 'k1 "\n\n')))

        assert (answer.tokens, answer.size) == (2, 30)
        assert answer.first_s <= answer.whole_s

    def test_an_answer_without_tokens_has_its_first_one_at_its_end(self):
        """
        No token: the time to the first is the time to the end.
        """
        answer = asyncio.run(read(served("{}")))

        assert (answer.tokens, answer.first_s) == (0, answer.whole_s)

    def test_a_stream_that_stays_open_ends_with_its_run(self):
        """
        The event of the run's end is found when it is cut, and what follows isn't read.
        """

        async def client():
            reader = asyncio.StreamReader()
            reader.feed_data(b'data: {"text":"tok0 "}\n\ndata: {"event": "comp')
            reading = asyncio.create_task(token_load.Reading(token_load.COMPLETED).read(reader))
            await asyncio.sleep(0)
            assert not reading.done()
            reader.feed_data(b'leted"}\n\n')
            return await reading

        assert asyncio.run(client()).tokens == 1

    def test_a_token_with_its_time_has_a_delay(self):
        """
        The delay is from the writing of the token to its being read.
        """
        token_graphs_stamps = f'data: "tok3@{token_load.now_ns() - 5_000_000} "\n\n'

        answer = asyncio.run(read(served(token_graphs_stamps)))

        assert len(answer.delays_s) == 1
        assert 0.005 <= answer.delays_s[0] < 5

    def test_a_failed_client_is_among_the_answers(self):
        """
        An error of one client doesn't end the others.
        """

        async def client(port, name):
            if name.endswith("1"):
                raise OSError("refused")
            return Answer(0, 0, 0, 0)

        found = asyncio.run(token_load.at_once(client, 1, 3, "of"))

        assert [type(one) for one in found] == [Answer, OSError, Answer]


class TestPrograms:
    """What is measured is what it says it is."""

    @pytest.mark.parametrize("kind", ["custom", "messages"])
    def test_a_graph_writes_all_tokens(self, kind, monkeypatch):
        """
        The graphs of both modes write so many tokens.
        """
        monkeypatch.setattr(token_graphs, "COUNT", 3)
        monkeypatch.setattr(token_graphs, "PACE_S", 0)
        graph = token_graphs.made(kind).compile()
        given = {"text": "hi"} if kind == "custom" else token_load.INPUT

        async def texts():
            return [chunk async for chunk in graph.astream(given, stream_mode=kind)]

        chunks = asyncio.run(texts())

        found = chunks if kind == "custom" else [chunk.content for chunk, _ in chunks]
        assert [text for text in found if text] == ["tok0 ", "tok1 ", "tok2 "]

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_tokens_in_one_process_are_read(self, backend, tmp_path):
        """
        The workload without a server counts the tokens that its readers got, on both loops.
        """
        request = {"arguments": {"runs": 2, "tokens": 3}, "backend": backend}
        library = libraries.load("actorgraph")

        found = worker.call(request, "custom_tokens", "workloads", library, tmp_path / "db")

        assert found["units"] == 6


class TestPages:
    """Figures of tokens in a file beside the others, and on the pages."""

    def test_they_are_kept_beside_measures(self, tmp_path):
        """
        The file's measures stay, and the figures are those that were written.
        """
        path = tmp_path / "figures.json"
        other = {"quick": False, "facts": {"cores": 2}, "measures": [{"name": "loop"}]}
        pages.save(path, other)

        pages.save_tokens(path, document_of(RUNS))

        assert json.loads(path.read_text("utf-8"))["measures"] == [{"name": "loop"}]
        assert pages.load_tokens(path) == document_of(RUNS)

    def test_quick_and_missing_figures_are_refused(self, tmp_path):
        """
        No page and no goal takes figures of `--quick`.
        """
        path = tmp_path / "figures.json"
        with pytest.raises(pages.NoFigures, match="--only tokens"):
            pages.load_tokens(path)

        pages.save_tokens(path, document_of({}, quick=True))

        with pytest.raises(pages.NoFigures, match="--quick"):
            pages.load_tokens(path)

    def test_the_chart_has_a_curve_for_each_side(self):
        """
        Clients at once are the places, the CPU of a token the heights.
        """
        curve = [
            {"name": f"tokens-{count}", "medians": {FLOOR: 80, SUBJECT: count, RIVAL: 500}}
            for count in (100, 10)
        ]

        chart = charts.tokens_chart(curve)

        assert chart.curves[SUBJECT] == [(10, 10), (100, 100)]
        assert set(chart.curves) == {FLOOR, SUBJECT, RIVAL}
        names = pages.drawn({"measures": [], "tokens": document_of({}, curve=curve)})
        assert list(names) == [pages.TOKENS_CHART]

    def test_goals_are_printed_from_a_file(self, tmp_path, monkeypatch, capsys):
        """
        `goals --tokens FILE` prints the goals of tokens, and measures nothing.
        """
        path = tmp_path / "figures.json"
        pages.save_tokens(path, document_of(RUNS))
        monkeypatch.setattr("sys.argv", ["goals", "--tokens", str(path)])

        assert goals.main() == 0
        assert "| reached" in capsys.readouterr().out
