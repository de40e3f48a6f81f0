"""The commands that keep data: prune, backup, migrate, codemod; and top, serve, studio."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from types import SimpleNamespace

import msgspec
import pytest

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.cli.command_line import main
from actorgraph.cli.doctor.examining import Report
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.kept_data import BackupResult, Figures, PruneResult, TransferResult
from actorgraph.cli.retention_plan import seconds_of
from actorgraph.cli.served_processes import check_workers
from actorgraph.cli.system_figures_reader import (
    STEPS_MAX,
    lag_of,
    metrics_figures,
    parse_metrics,
    rate_of,
)
from tests.cli.runs import run_thread
from tests.support.source_files import ROOT

METRICS = """
# HELP actorgraph_runs_active Active runs.
actorgraph_runs_active 3.0
actorgraph_runs_queued 1.0
actorgraph_runs_held 2.0
actorgraph_supersteps_total {steps}
actorgraph_runs_total{{status="success"}} 7.0
broken
actorgraph_broken x
"""


def printed(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def db(tmp_path):
    """A database with a thread of nine checkpoints and one of three."""
    path = str(tmp_path / "runs.db")
    run_thread(path, "long", times=3)
    run_thread(path, "short")
    return path


def count(path):
    with SqliteSaver(path, read_only=True) as saver:
        return {thread: saver.count(thread) for thread in saver.list_threads()}


class TestPrune:
    def test_a_dry_run_counts_exactly_and_removes_nothing(self, db, capsys):
        """
        The announced numbers are those of the removal that follows.
        """
        given = ["prune", db, "--older-than", "0s", "--json"]

        assert main([*given, "--dry-run"]) == 0
        announced = printed(capsys)
        assert count(db) == {"long": 9, "short": 3}
        assert main([*given, "--yes"]) == 0
        done = printed(capsys)

        assert announced["threads"] == done["threads"]
        assert (announced["dry_run"], done["dry_run"]) == (True, False)
        assert done["removed"] == 10
        assert count(db) == {"long": 1, "short": 1}

    def test_nothing_is_removed_without_a_yes(self, db, capsys):
        """
        Without a terminal the command says how to confirm, and exits with 1.
        """
        assert main(["prune", db, "--older-than", "0s"]) == 1
        assert "Do this: add --yes" in capsys.readouterr().err
        assert count(db) == {"long": 9, "short": 3}

    def test_one_thread_is_pruned_alone(self, db, capsys):
        """
        --thread leaves other threads as they are; --vacuum releases their space.
        """
        given = ["--thread", "long", "--older-than", "0s", "--yes", "--vacuum", "--json"]

        assert main(["prune", db, *given]) == 0
        assert printed(capsys)["removed"] == 8
        assert count(db) == {"long": 1, "short": 3}

    @pytest.mark.parametrize(
        ("given", "cause"),
        [([], "nothing says what to remove"), (["--older-than", "soon"], "not a duration")],
    )
    def test_a_rule_is_required(self, db, given, cause, capsys):
        """
        Nothing is removed by default, and a duration has a unit.
        """
        assert main(["prune", db, *given]) == 2
        assert cause in capsys.readouterr().err

    def test_durations_have_units(self):
        """
        Seconds, minutes, hours, days and weeks.
        """
        assert [seconds_of(f"2{unit}") for unit in "smhdw"] == [2, 120, 7200, 172_800, 1_209_600]
        with pytest.raises(UsageError):
            seconds_of("2")


class TestBackup:
    def test_a_backup_is_a_database(self, db, tmp_path, capsys):
        """
        The copy has all threads, and an existing file is refused.
        """
        copy = str(tmp_path / "copy.db")

        assert main(["backup", copy, "--db", db, "--json"]) == 0
        assert printed(capsys)["bytes"] > 0
        assert count(copy) == count(db)
        assert main(["backup", copy, "--db", db]) == 2


class TestOlderTools:
    def test_the_codemod_is_the_same_program(self, tmp_path, capsys):
        """
        Its report and exit code come through.
        """
        file = tmp_path / "app.py"
        file.write_text("from langgraph.graph import StateGraph\n")

        assert main(["codemod", str(file), "--check"]) == 1
        assert main(["codemod", str(file), "--write"]) == 0
        assert "actorgraph" in file.read_text()
        assert main(["codemod", str(file), "--write", "--check"]) == 2
        assert "would change 1 files" in capsys.readouterr().err

    def test_migrate_reports_a_missing_file(self, tmp_path, capsys):
        """
        The error of the library is one line.
        """
        assert main(["migrate", str(tmp_path / "x"), str(tmp_path / "y")]) != 0
        assert capsys.readouterr().err.count("\n") == 1


class TestTop:
    def test_a_database_is_shown_once(self, db, capsys):
        """
        --json has runs, steps and systems; --once draws them.
        """
        assert main(["top", db, "--json"]) == 0
        found = printed(capsys)
        assert (found["running"], found["queued"], found["lag_s"]) == (0, 0, None)
        assert found["steps_per_s"] > 0
        assert main(["top", db, "--once"]) == 0
        assert "steps/s" in capsys.readouterr().out

    def test_metrics_become_figures(self):
        """
        The rate of steps needs two readings; unreadable lines are skipped.
        """
        first, second = ([*parse_metrics(METRICS.format(steps=n))] for n in (10, 30))

        alone = metrics_figures("http://h/metrics", first)
        both = metrics_figures("http://h/metrics", second, first, 4.0)

        assert alone.steps_per_s is None
        assert (both.running, both.queued, both.steps_per_s) == (3, 3, 5.0)
        assert both.ended == {"success": 7}

    def test_rates_are_counted_of_the_newest_checkpoints(self):
        """
        Over ten seconds; over less if more were made than are read.
        """
        assert rate_of([99.0, 95.0, 50.0], now=100.0) == 0.2
        assert rate_of([98.0] * STEPS_MAX, now=100.0) == STEPS_MAX / 2

    def test_lag_is_that_of_the_oldest_due_run_without_a_system(self):
        """
        Runs of a living system, and those that aren't due yet, don't count.
        """
        row = {"created": 1_000_000, "due": 0, "alive": False}
        rows = [SimpleNamespace(**{**row, **more}) for more in ({}, {"alive": True, "created": 0})]

        assert lag_of(rows, 5.0) == 4.0
        assert lag_of([SimpleNamespace(**{**row, "due": 9_000_000})], 5.0) is None


class TestServe:
    def test_other_machines_are_served_with_rules_only(self, capsys):
        """
        A public address without access rules is refused, with both ways out.
        """
        assert main(["serve", "tests.cli.runs:graph", "--host", "0.0.0.0"]) == 2  # noqa: S104
        assert "--authorize" in capsys.readouterr().err

    def test_several_workers_need_a_shared_database(self):
        """
        A saver in memory belongs to one process.
        """
        with pytest.raises(UsageError, match="InMemorySaver isn't one"):
            check_workers(SimpleNamespace(saver=InMemorySaver()), 2)
        check_workers(SimpleNamespace(saver=SqliteSaver("x.db")), 2)

    def test_a_taken_port_is_one_line(self, capsys):
        """
        The error names the port and another choice.
        """
        import socket

        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert main(["serve", "tests.cli.runs:graph", "--port", port]) == 1
        assert f"can't listen on 127.0.0.1 port {port}" in capsys.readouterr().err

    def test_a_studio_needs_something_to_show(self, capsys, monkeypatch):
        """
        The studio's own error comes through.
        """
        monkeypatch.delenv("ACTORGRAPH_DB", raising=False)

        assert main(["studio"]) == 2
        assert "nothing to show" in capsys.readouterr().err

    @pytest.mark.long
    @pytest.mark.parametrize("workers", ["1", "2"])
    def test_a_graph_is_served_until_a_signal(self, db, workers):
        """
        Requests are answered, by one process or several, and SIGTERM ends all of them.
        """
        command = [sys.executable, "-m", "actorgraph", "serve", "tests.cli.runs:graph"]
        command += ["--db", db, "--port", "0", "--workers", workers]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as server:
            assert server.stderr is not None
            address = server.stderr.readline().partition("http://")[2].partition(";")[0]
            address = address.partition(",")[0].strip()
            with urllib.request.urlopen(f"http://{address}/ok", timeout=20) as answer:
                assert answer.status == 200
            server.send_signal(signal.SIGTERM)
            server.stderr.read()
            assert server.wait(20) == 0


class TestDoctor:
    def test_a_right_database_has_no_finding(self, db, capsys):
        """
        The exit code is 0, and nothing in the folder changes.
        """
        assert main(["doctor", db]) == 0
        assert "no findings" in capsys.readouterr().out

    def test_a_right_program_has_no_finding(self, db, capsys):
        """
        With its input, and over a database.
        """
        given = ["--app", "tests.cli.runs:graph", "--input", '{"count": 1}', "--strict", "--json"]

        assert main(["doctor", db, *given]) == 0
        found = printed(capsys)
        assert found["findings"] == []
        assert len(found["examined"]) == 2

    @pytest.mark.parametrize(
        ("pragma", "code", "exit_code"),
        [
            ("PRAGMA user_version = 1", "saver.old-schema", 0),
            ("PRAGMA user_version = 9", "saver.new-schema", 1),
        ],
    )
    def test_other_versions_are_found(self, db, pragma, code, exit_code, capsys):
        """
        Older tables are a warning, newer ones an error; --strict fails on both.
        """
        with sqlite3.connect(db) as connection:
            connection.execute(pragma)
        connection.close()

        assert main(["doctor", db, "--json"]) == exit_code
        assert [one["code"] for one in printed(capsys)["findings"]] == [code]
        assert main(["doctor", db, "--strict", "--json"]) == 1

    def test_a_missing_database_names_the_cause(self, tmp_path, capsys):
        """
        An unreachable database is a finding, and not an error of the command.
        """
        assert main(["doctor", str(tmp_path / "gone.db"), "--json"]) == 1
        (found,) = printed(capsys)["findings"]
        assert found["code"] == "saver.unreachable"
        assert "doesn't exist" in found["text"]

    def test_a_program_that_needs_a_package_gets_the_line_for_pip(
        self, tmp_path, capsys, monkeypatch
    ):
        """
        Any other error of an import is named as it is.
        """
        (tmp_path / "needs.py").write_text("import frobnicate\n")
        (tmp_path / "breaks.py").write_text("1 / 0\n")
        monkeypatch.syspath_prepend(tmp_path)

        assert main(["doctor", "needs:graph", "--json"]) == 1
        assert printed(capsys)["findings"][0]["do"] == "pip install frobnicate"
        assert main(["doctor", "breaks:graph", "--json"]) == 1
        assert "ZeroDivisionError" in printed(capsys)["findings"][0]["text"]

    @pytest.mark.parametrize(("given", "cause"), [([], "nothing to examine")])
    def test_wrong_use_exits_with_2(self, given, cause, capsys):
        """
        One line says what to name.
        """
        assert main(["doctor", *given]) == 2
        assert cause in capsys.readouterr().err


class TestSchemas:
    def test_each_result_has_a_schema_that_its_json_keeps(self, db, tmp_path, capsys):
        """
        Programs may read --json with the classes of `kept_data`, or with their JSON schemas.
        """
        file = str(tmp_path / "t.jsonl")
        commands = {
            PruneResult: ["prune", db, "--older-than", "0s", "--dry-run"],
            BackupResult: ["backup", str(tmp_path / "b.db"), "--db", db],
            TransferResult: ["export", db, "-o", file],
            Figures: ["top", db],
            Report: ["doctor", db],
        }

        for kind, command in commands.items():
            assert main([*command, "--json"]) == 0
            found = msgspec.json.decode(capsys.readouterr().out, type=kind, strict=True)
            assert msgspec.json.schema(kind)["$ref"].endswith(kind.__name__)
            assert isinstance(found, kind)
        assert main(["import", file, str(tmp_path / "new.db"), "--json"]) == 0
        found = msgspec.json.decode(capsys.readouterr().out, type=TransferResult)
        assert (found.threads, found.checkpoints) == (2, 12)
