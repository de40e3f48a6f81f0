"""examples/many_machines: processes that accept and work, killed and replaced."""

import os
import subprocess
import sys

from tests.support.source_files import ROOT


def test_no_order_is_lost(postgres):
    """
    `python -m many_machines` kills a worker, drains another, and finds each order ended once.
    """
    with postgres.connect() as db:
        db.execute("DROP SCHEMA IF EXISTS machines CASCADE")
    found = subprocess.run(
        [sys.executable, "-m", "many_machines", "--seconds", "4", "--url", postgres.url],
        cwd=ROOT / "examples",
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert found.returncode == 0, found.stdout + found.stderr
    assert " 0 lost, 0 with a step lost or done twice" in found.stdout
    assert "killed -9" in found.stdout
