"""examples/many_machines: processes that accept and work, killed and replaced."""

import os
import signal
import subprocess
import sys
import threading
from importlib import import_module
from io import StringIO

import pytest
from rich.console import Console

from tests.support.source_files import ROOT

SECONDS_MAX = 100.0
"""Of the example with all of its processes; less than the guard of tests that hang allows."""


def test_no_order_is_lost(postgres):
    """
    `python -m many_machines` kills a worker, drains another, and finds each order ended once.
    """
    with postgres.connect() as db:
        db.execute("DROP SCHEMA IF EXISTS machines CASCADE")
    code, text = run_example(postgres.url)

    assert code == 0, text
    assert " 0 lost, 0 with a step lost or done twice" in text
    assert "killed -9" in text


def test_its_processes_end_with_an_error(postgres, monkeypatch):
    """
    When the example fails, e.g. because its table can't be written, none of its processes is left.
    """
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    module, made = import_module("many_machines.__main__"), []
    real = module.Machines
    monkeypatch.setattr(module, "Machines", lambda url: made.append(real(url)) or made[0])
    monkeypatch.setattr(real, "table", lambda *_: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        module.run(postgres.url, 4.0, Console(file=StringIO()))
    codes = [one.child.poll() for one in made[0].processes]

    assert len(codes) == 5
    assert None not in codes


def run_example(url):
    """Run the example in a process group of its own; returns its exit code and its output.

    Its processes write to the same pipe, so that this waits for the last one of them.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "many_machines", "--seconds", "4", "--url", url],
        cwd=ROOT / "examples",
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    limit = threading.Timer(SECONDS_MAX, os.killpg, (process.pid, signal.SIGKILL))
    limit.start()
    try:
        text, _ = process.communicate()
    finally:
        limit.cancel()
    return process.returncode, text
