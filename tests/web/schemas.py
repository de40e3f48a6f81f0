"""Schemathesis as a process: what it sends to a server, what it found, and what was answered."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)


class Found(NamedTuple):
    """The output of a run of schemathesis.

    Attributes:
        passed: whether nothing was wrong. output: all that it printed.
        operations, cases: how many there were of each.
        answers: operation -> status -> how many answers; empty without `leads`.
    """

    passed: bool
    output: str
    operations: int
    cases: int
    answers: dict[str, dict[str, int]]


def schemathesis(
    url: str,
    folder: Path,
    *,
    phases: str,
    examples: int,
    seed: int,
    leads: bool,
    limit_s: float,
) -> Found:
    """Send requests of every kind to every operation.

    Args:
        phases: "fuzzing" are random requests, "coverage" those for each boundary.
        examples: random requests per operation.
        leads: whether they are led to threads, runs and graphs that are there.
    """
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        *("run", f"{url}/openapi.json", "--checks", CHECKS, "--continue-on-failure"),
        *("--max-examples", str(examples), "--phases", phases, "--seed", str(seed)),
        *("--request-timeout", "30", "--generation-database", ":memory:"),
    ]
    answers = folder / "answers.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SCHEMA_ANSWERS": str(answers)}
    if leads:
        env["SCHEMATHESIS_HOOKS"] = "tests.web.schema_hooks"
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=limit_s, check=False, cwd=folder, env=env
    )
    told: Any = json.loads(answers.read_text()) if answers.exists() else {}
    return Found(
        done.returncode == 0,
        done.stdout + done.stderr,
        _number(r"Tested: (\d+)", done.stdout),
        _number(r"(\d+) generated", done.stdout),
        told,
    )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0
