"""Requests of schemathesis, led to things that are there: it can't guess the id of a run.

Three of four requests get the ids of threads, runs, checkpoints and graphs that answers have
seen in answers, in the path and in the body; the rest stays as it was made.
"""

import atexit
import json
import os
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import schemathesis

GRAPHS = ("log", "ask", "fail", "talk")
KNOWN: dict[str, list[str]] = {"assistant_id": list(GRAPHS), "thread_id": ["t0", "t1", "t2"]}
KNOWN["agent_id"] = KNOWN["graph_id"] = list(GRAPHS)
NAMES = ("thread_id", "run_id", "checkpoint_id", "assistant_id", "agent_id", "graph_id", "cron_id")
MOST = 20
LATER_S = 7200
"""Some runs in the background begin later than the test lasts, so a request can still cancel them.

On a thread of another graph a run that is due waits for ever, and so does a request that joins it.
"""
CHOICE = random.Random(1)
ANSWERS: defaultdict[str, Counter[int]] = defaultdict(Counter)
"""Operation -> status -> how many answers; written to the file that SCHEMA_ANSWERS names."""

if "SCHEMA_ANSWERS" in os.environ:
    atexit.register(lambda: Path(os.environ["SCHEMA_ANSWERS"]).write_text(json.dumps(ANSWERS)))


def _known(name: str) -> str | None:
    found = KNOWN.get(name)
    return CHOICE.choice(found) if found else None


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Lead a request to what is there."""
    for body in case.body if isinstance(case.body, list) else [case.body]:
        if isinstance(body, dict) and isinstance(body.get("after_seconds"), int | float):
            _hasten(body)
    if CHOICE.random() < 1 / 4:
        return
    if isinstance(case.path_parameters, dict):
        _lead_path(case)
    if isinstance(case.body, dict):
        _lead(case.body)
        if case.operation.path.endswith("/runs") and CHOICE.random() < 1 / 4:
            case.body["after_seconds"] = LATER_S
    elif isinstance(case.body, list):
        for one in case.body:
            if isinstance(one, dict):
                _lead(one)


def _lead_path(case: Any) -> None:
    """A path of things that are there."""
    pairs = {name: _known(name) for name in case.path_parameters}
    if case.operation.method.upper() in ("PATCH", "DELETE") and "assistant_id" in pairs:
        pairs["assistant_id"] = _known("made")  # a graph's own can't be changed
    kind = "delayed" if case.operation.path.endswith("/cancel") else "run"
    if "run_id" in pairs and (both := _known(kind) or _known("run")) is not None:
        thread, pairs["run_id"] = both.split("/")
        if "thread_id" in pairs:
            pairs["thread_id"] = thread
    case.path_parameters.update({k: v for k, v in pairs.items() if v is not None})


def _hasten(body: dict[str, Any]) -> None:
    """Start a run now: a request that waits for it would wait for up to ten years."""
    body["after_seconds"] = min(body["after_seconds"], 0.01)


def _lead(body: dict[str, Any]) -> None:
    """A body about what is there; a run's thread is made if it doesn't exist."""
    for name in NAMES:
        if isinstance(body.get(name), str) and (known := _known(name)) is not None:
            body[name] = known
    if "assistant_id" in body or "agent_id" in body:
        body["if_not_exists"] = "create"
        if isinstance(body.get("input"), dict) and CHOICE.random() < 1 / 2:
            body["input"] = {"foo": "x"}
        for name in ("webhook", "after_seconds", "enabled"):
            body.pop(name, None)
    if isinstance(body.get("schedule"), str):
        body.update(schedule="0 0 1 1 *", timezone=None, end_time=None)


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Remember the ids in an answer."""
    ANSWERS[f"{case.operation.method.upper()} {case.operation.path}"][response.status_code] += 1
    if response.status_code != 200:
        return
    where = dict(response.headers).get("content-location")
    if where:
        _, _, thread, _, run = where[0].split("/")
        if "%" not in thread:
            # Others would wait for one that begins late.
            late = isinstance(case.body, dict) and case.body.get("after_seconds") == LATER_S
            _keep("delayed" if late else "run", f"{thread}/{run}")
    try:
        data = json.loads(response.content)
    except ValueError:
        return
    if case.operation.path == "/assistants":
        _keep("made", data["assistant_id"])
    for one in data if isinstance(data, list) else [data]:
        if isinstance(one, dict):
            for name in NAMES:
                if isinstance(one.get(name), str) and "/" not in one[name]:
                    _keep(name, one[name])


def _keep(name: str, value: str) -> None:
    found = KNOWN.setdefault(name, [])
    if value and value not in found and name not in ("assistant_id", "agent_id", "graph_id"):
        found.append(value)
        if len(found) > MOST:
            found.pop(CHOICE.randrange(len(found) - 1))
