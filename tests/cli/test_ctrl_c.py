"""Ctrl-C during a run: it ends cleanly, in a process of its own, and the thread can go on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from actorgraph.cli import printed
from tests.cli.command_runs import caller
from tests.support.gates import PATIENCE_S

PROGRAM = """
import sys
from typing import TypedDict

import anyio

from actorgraph import START, StateGraph


class Trip(TypedDict):
    text: str


def draft(state):
    return {"text": state["text"] + ", drafted"}


async def wait(state):
    if state["text"].startswith("slow"):
        await anyio.sleep_forever()
    return {"text": state["text"] + ", over"}


graph = StateGraph(Trip).add_sequence([draft, wait]).add_edge(START, "draft").compile()
"""


def test_a_stopped_run_says_how_to_go_on(tmp_path, capsys):
    """
    The exit code is 130, the finished step is stored, and the printed command goes on.
    """
    (tmp_path / "waiting.py").write_text(PROGRAM, "utf-8")
    words = ["run", "waiting.py:graph", "--input", '{"text": "slow"}', "--thread", "t1"]
    command = [sys.executable, "-m", "actorgraph", *words, "--db", "runs.db"]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": root, "PATH": "", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        lines = iter(process.stdout.readline, "")
        assert next((line for line in lines if "wait runs" in line), "")

        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    assert "Stopping: finished steps are stored." in err
    assert "actorgraph resume t1 --graph waiting.py:graph --db runs.db" in out
    shown = caller(capsys, str(tmp_path / "runs.db"))("show", "t1", "--json")
    state = shown.json(printed.ThreadShown)
    assert (state.values, state.next) == ({"text": "slow, drafted"}, ("wait",))


def test_an_import_that_waits_for_a_pipe_ends(tmp_path):
    """
    Ctrl-C, pressed again if need be, ends it though the pipe's other end stays open and writes
    nothing.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "actorgraph", "import", str(pipe), str(tmp_path / "new.db")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        other_end = os.open(pipe, os.O_WRONLY)  # from here on it reads
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        process.kill()
    os.close(other_end)

    # The second one when it has nearly ended.
    assert process.returncode in {130, -signal.SIGINT}
