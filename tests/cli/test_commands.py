"""Each command on each kind of database; its JSON against its schema."""

import json
import re

import anyio
import msgspec
import pytest

from actorgraph import START, ActorSystem, SqliteSaver, StateGraph
from actorgraph.cli import printed
from actorgraph.cli.command_line import main
from actorgraph.runtime.system.parked import RetriedRuns
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import AdoptRun, SetRun
from tests.cli.command_runs import GRAPH
from tests.cli.runs import counting
from tests.cli.travel_app import Trip
from tests.support.source_files import ROOT

INPUT = '{"text": "Rome"}'
SLOW = """
import signal
from pathlib import Path
from typing import TypedDict
import anyio
from actorgraph import START, StateGraph

class Slow(TypedDict, total=False):
    first: int
    last: int

async def first(state):
    return {"first": 1}

async def last(state):
    called = Path(__file__).with_suffix(".called")
    if not called.exists():
        called.touch()
        signal.raise_signal(signal.SIGINT)
        await anyio.sleep(20)
    return {"last": 2}

graph = StateGraph(Slow).add_sequence([first, last]).add_edge(START, "first").compile()
"""
"""A program whose second node gets Ctrl-C in its first call, and would last long."""


class TestATour:
    @pytest.mark.every_saver
    def test_a_thread_is_run_read_changed_and_resumed(self, call_stored):
        """
        All commands work on SQLite, PostgreSQL and JSON lines, and print JSON of their schema.
        """
        call = call_stored
        ran = call("run", GRAPH, "--input", INPUT, "--thread", "t1", "--json")
        result = ran.json(printed.RunResult)
        assert (ran.code, result.status, result.steps) == (0, "waiting", 1)
        (asked,) = result.questions
        assert asked.node == "review"

        listed = call("threads", "--status", "interrupted", "--json").json(printed.ThreadList)
        assert [(one.thread_id, one.next) for one in listed.threads] == [("t1", ("review",))]
        shown = call("show", "t1", "--json").json(printed.ThreadShown)
        assert (shown.values, shown.questions) == ({"text": "Rome, drafted"}, (asked,))
        diff = call("diff", "t1", "0", "1", "--json").json(printed.StateDiff)
        assert [(row.path, row.before) for row in diff.changes] == [("text", "Rome")]

        made = call("fork", "t1", "0", "--to", "t2", "--json").json(printed.MadeCheckpoint)
        assert made.thread_id == "t2"
        changed = call("update", "t2", '{"text": "Bari"}', "--as-node", "draft", "--json")
        assert changed.json(printed.MadeCheckpoint).thread_id == "t2"
        assert call("show", "t2", "--json").json(printed.ThreadShown).values == {"text": "Bari"}

        answer = f"{asked.id[:8]}=true"
        done = call("resume", "t1", "--answer", answer, "--json").json(printed.RunResult)
        assert (done.status, done.output["text"]) == ("done", "Rome, drafted, published")
        history = call("history", "t1", "--json").json(printed.ThreadHistory)
        assert [one.step for one in history.checkpoints] == [3, 2, 1, 0, -1]
        tail = call("tail", "t1", "-n", "1", "--json").out.splitlines()
        lines = [msgspec.json.decode(line, type=printed.TailLine) for line in tail]
        assert [(line.kind, line.text) for line in lines] == [
            ("checkpoint", "step 3, loop: then the end"),
            ("end", "the end"),
        ]


class TestRun:
    def test_a_failed_run_is_one_line_and_can_go_on(self, call):
        """
        The error of a node is one line with the command that goes on, and the exit code is 1.
        """
        call("run", GRAPH, "--input", INPUT, "--thread", "t1")
        ran = call("resume", "t1", "--answer", "false")

        assert ran.code == 1
        assert ran.err.startswith(
            "actorgraph: the run failed: ValueError: the printer is out of paper."
        )
        assert "Do this: mend the cause, then: actorgraph resume t1 --graph " in ran.err
        assert ran.err.count("\n") == 1
        assert call("threads", "--status", "error").out.count("t1") == 1

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_run_needs_no_database(self, backend, call, capsys):
        """
        Without one the graph runs on both event loops, and nothing is stored.
        """
        code = main(["run", GRAPH, "--input", INPUT, "--backend", backend])

        assert code == 0
        assert "The thread isn't stored: add --db" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (("run", GRAPH), "a new thread needs an input"),
            (("run", GRAPH, "--input", "{text"), "--input is not JSON"),
            (("run", GRAPH, "--input", "@gone.json"), "--input '@gone.json'"),
            (("run", "travel:graph", "--input", "{}"), "module 'travel' can't be found"),
            (("run", "gone.py:graph", "--input", "{}"), "file 'gone.py' doesn't exist"),
            (("run", f"{GRAPH}s", "--input", "{}"), "has no 'graphs'. Do this: name one of graph"),
            (("run", GRAPH, "--input", "{}", "--backend", "curio"), "unknown --backend 'curio'"),
            (("resume", "t1"), "waits for an answer. Do this: read the question with"),
            (("resume", "t1", "--answer", "abcd=1"), "fits 0 of the thread's 1 open questions"),
            (("resume", "t9"), "thread 't9' has no checkpoint here"),
            (("show", "t9"), "thread 't9' has no checkpoint here"),
            (("show", "t1", "--checkpoint", "77"), "'77' names 0 checkpoints of thread 't1'"),
            (("threads", "--status", "done"), "unknown --status 'done'"),
            (("threads", "--metadata", "[]"), "--metadata is list, not a JSON object"),
            (("cancel", "t1"), "thread 't1' has no open run of an ActorSystem"),
            (("graph", GRAPH, "--png"), "a PNG picture needs a file"),
            (("graph", GRAPH, "--svg", "--ascii"), "2 formats are asked for"),
        ],
    )
    def test_wrong_use_is_one_line_with_a_way_out(self, words, text, call):
        """
        Nothing runs, nothing is printed on stdout, no traceback; the line says what to do.
        """
        call("run", GRAPH, "--input", INPUT, "--thread", "t1")

        ran = call(*words)

        assert ran.code in (1, 2)
        assert text in ran.err
        assert "Do this: " in ran.err
        assert (ran.out, ran.err.count("\n")) == ("", 1)

    def test_an_error_is_json_if_asked(self, call):
        """
        With --json the line on stderr is an object with the error and the way out.
        """
        ran = call("show", "t9", "--json")

        assert ran.code == 2  # the database doesn't exist
        assert json.loads(ran.err)["kind"] == "UsageError"
        assert json.loads(ran.err)["do"]


class TestStopping:
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_ctrl_c_ends_the_run_and_says_how_to_go_on(self, backend, call, tmp_path):
        """
        The node is cancelled, the exit code is 130, and the printed command finishes the thread.
        """
        program = tmp_path / "slow.py"
        program.write_text(SLOW, "utf-8")
        graph = f"{program}:graph"

        stopped = call("run", graph, "--input", "{}", "--thread", "t1", "--backend", backend)

        assert (stopped.code, "Stopping: finished steps are stored" in stopped.err) == (130, True)
        assert f"Go on:\n  actorgraph resume t1 --graph {graph} --db " in stopped.out
        done = call("resume", "t1", "--graph", graph, "--backend", backend, "--json")
        assert done.json(printed.RunResult).output == {"first": 1, "last": 2}


class TestRetry:
    async def test_parked_runs_are_pending_again(self, tmp_path, capsys):
        """
        All of the database, or those that are named; one that isn't parked is left, and the exit
        code says so. The next process that recovers ends it.
        """
        db = str(tmp_path / "runs.db")
        graphs = {"count": counting(None)}
        async with ActorSystem(graphs, saver=SqliteSaver(db)) as system:
            ended = await system.start("count", "t0", {"count": 1})
            await ended.result()
            late = await system.start("count", "t1", {"count": 1}, delay_s=3600)
            host = system._host  # noqa: SLF001
            row = await system._row(as_bytes(late.id))  # noqa: SLF001
            own = b"p" * 16
            await host.writer.store(
                AdoptRun(row.run, "t1", own, row.owner, 3, deaths=3),
                SetRun(row.run, "t1", own, "parked", "3 processes have ended", 3, deaths=3),
            )

        async def called(*words):
            code = await anyio.to_thread.run_sync(main, ["retry", *words, "--db", db, "--json"])
            return code, msgspec.json.decode(capsys.readouterr().out, type=RetriedRuns)

        left = await called("--run", ended.id)
        found = await called("--parked")
        again = await called("--parked")
        refused = await anyio.to_thread.run_sync(main, ["retry", "--db", db])

        assert left == (1, RetriedRuns((), {ended.id: "it is not parked: its status is 'success'"}))
        assert found == (0, RetriedRuns((late.id,), {}))
        assert again == (0, RetriedRuns((), {}))
        assert refused == 2
        assert "use `--parked`" in capsys.readouterr().err


class TestCancel:
    async def test_a_run_of_another_process_is_cancelled(self, tmp_path, capsys):
        """
        The system that has the run ends it; the printed runs have their new status.
        """
        db = str(tmp_path / "runs.db")
        began = anyio.Event()

        async def wait(state):
            began.set()
            await anyio.sleep_forever()

        builder = StateGraph(Trip).add_sequence([wait]).add_edge(START, "wait")
        async with ActorSystem(
            {"trip": builder.compile()}, saver=SqliteSaver(db), lease_s=1
        ) as system:
            run = await system.start("trip", "t1", {"text": "Rome"})
            await began.wait()

            code = await anyio.to_thread.run_sync(main, ["cancel", "t1", "--db", db, "--json"])

            text = capsys.readouterr().out
            found = msgspec.json.decode(text, type=printed.CancelledRuns)
            assert code == 0
            assert [(one.run_id, one.status) for one in found.runs] == [(run.id, "cancelled")]

    async def test_a_run_that_waits_for_its_time_is_left_alone(self, tmp_path, capsys):
        """
        Its thread is idle, `tail` ends with the run before it, `cancel` leaves it, `top` too.
        `cancel` says so, and cancels it if it is named.
        """
        db = str(tmp_path / "runs.db")
        builder = StateGraph(Trip).add_node("go", lambda _: {}).add_edge(START, "go")
        async with ActorSystem({"trip": builder.compile()}, saver=SqliteSaver(db)) as system:
            await (await system.start("trip", "t1", {"text": "Rome"})).result()
            late = await system.start("trip", "t1", {"text": "Oslo"}, delay_s=600)
        await anyio.to_thread.run_sync(main, ["top", db, "--json"])
        assert json.loads(capsys.readouterr().out)["queued"] == 0
        said, codes = {}, {}
        for name in ("threads", "show", "tail", "cancel"):
            words = [name, "--db", db, *([] if name == "threads" else ["t1"])]
            words += [] if name == "cancel" else ["--json"]
            codes[name] = await anyio.to_thread.run_sync(main, words)
            said[name] = capsys.readouterr()

        listed = msgspec.json.decode(said["threads"].out, type=printed.ThreadList)
        shown = msgspec.json.decode(said["show"].out, type=printed.ThreadShown)
        assert [line.status for line in listed.threads] == ["idle"]
        assert shown.run is not None
        assert (shown.status, shown.run.run_id, shown.run.status) == ("idle", late.id, "pending")
        assert '"end"' in said["tail"].out.splitlines()[-1]
        assert "has no open run of an ActorSystem; 1 waits for its time" in said["cancel"].err
        assert f"--run ID`: {late.id}" in said["cancel"].err
        assert codes == {"threads": 0, "show": 0, "tail": 0, "cancel": 1}

        one = ["cancel", "t1", "--db", db, "--json", "--run"]
        assert await anyio.to_thread.run_sync(main, [*one, "other"]) == 1
        assert "has no open run 'other'; its open runs: 1" in capsys.readouterr().err
        assert await anyio.to_thread.run_sync(main, [*one, late.id]) == 0
        found = msgspec.json.decode(capsys.readouterr().out, type=printed.CancelledRuns)
        assert [(run.run_id, run.status) for run in found.runs] == [(late.id, "cancelled")]


class TestGraph:
    @pytest.mark.parametrize(
        ("name", "begin"), [("g.svg", b"<svg"), ("g.png", b"\x89PNG"), ("g.mmd", b"---")]
    )
    def test_a_file_says_its_format(self, name, begin, call, tmp_path):
        """
        The ending of the file decides; the JSON names it.
        """
        file = tmp_path / name
        ran = call("graph", GRAPH, "-o", str(file), "--json")

        assert ran.json(printed.GraphDrawing).path == str(file)
        assert file.read_bytes().startswith(begin)


class TestSchemas:
    def test_each_result_has_one(self):
        """
        A JSON schema can be made of each result that docs/cli.md lists.
        """
        kinds = [one for one in vars(printed).values() if isinstance(one, type)]
        schemas = [msgspec.json.schema(one) for one in kinds if issubclass(one, msgspec.Struct)]

        assert len(schemas) > 10
        assert all("$defs" in one for one in schemas)

    def test_the_page_lists_their_keys(self):
        """
        The table of docs/cli.md has each result with exactly its keys.
        """
        page = (ROOT / "docs" / "cli.md").read_text("utf-8").partition("### Schemas")[2]
        rows = re.findall(r"^\| `\w+`.*\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)

        assert len(rows) == 9
        for name, keys in rows:
            fields = getattr(printed, name).__struct_fields__
            assert re.findall(r"`(\w+)`", keys) == list(fields)
