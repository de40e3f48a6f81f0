"""Tokens to many clients at once over sockets: `python -m tests.bench --only tokens`.

Each figure is of a server process of its own (`token_servers.py`, or `langgraph dev`) and of
clients in this process (`token_load.py`): 200 of them, 40 tokens each, 20 ms apart. One repetition
has all cases of `token_figures.py`, the sides of each one right after the other: a machine that
gets slower in the meantime slows all of them. CPU is the server's alone, from /proc. Before a
server is measured, one answer is read to the end; where LangGraph's clients are served, one more by
langgraph-sdk.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from argparse import Namespace
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.bench import facts, goal_rows, pages, report, rival, runner, token_figures, token_load
from tests.bench.catalogue import FLOOR, RIVAL, SUBJECT, at_quick_size
from tests.bench.served import ServerProcess, dev_command, free_port
from tests.bench.token_figures import CASES, Case, Document, Figures

TOKENS, PACE_S = 40, 0.02
REPETITIONS = 3
QUICK_CLIENTS = 20
FIRST_S = 60
"""Seconds for the answers that warm a server up."""


class NotRead(Exception):
    """A server's answer isn't what its clients are to get; the text says what they got."""


def main(options: Namespace) -> int:
    """Measure and print the tables; `--json` writes them; returns 1 if an answer was lost."""
    load_before = os.getloadavg()[0]
    pythons = _pythons(peers=not options.no_rival)
    runs: dict[str, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    repetitions = 1 if options.quick else options.repetitions or REPETITIONS
    for _ in range(repetitions):
        for case in CASES:
            for side in case.sides:
                found = _attempt(case, side, pythons, [_clients(case, quick=options.quick)])
                for figures in found:
                    runs[case.name][side].append(figures)
    bench = runner.Bench(pythons, SUBJECT, "asyncio", 1 if options.quick else None)
    measure = token_figures.IN_PROCESS
    in_process = bench.measure(at_quick_size(measure) if options.quick else measure)
    document: Document = {
        "settings": {"tokens": TOKENS, "pace_s": PACE_S, "quick": options.quick},
        "facts": facts.gather(bench, load_before),
        "runs": runs,
        "in_process": report.as_json(in_process),
        "curve": [] if options.quick else _curve(pythons),
    }
    print(shown(document))
    if options.json:
        pages.save_tokens(options.json, document)
    failed = any(not runs[case.name][side] for case in CASES for side in _sides(case, pythons))
    return 1 if failed or token_figures.lost(document) else 0


def shown(document: Document) -> str:
    """The facts, the figures and the goals, as Markdown."""
    lines = [f"- {name}: {report.flat(value)}" for name, value in document["facts"].items()]
    rows = list(goal_rows.rows(token_figures.GOALS, token_figures.numbers(document)))
    tables = [token_figures.figures_table(document), report.table(goal_rows.HEADER, rows)]
    return "\n".join([*lines, *(line for each in tables for line in ["", *each])])


def _pythons(*, peers: bool) -> dict[str, str]:
    """Side -> interpreter; LangGraph's is left out if it isn't wanted or can't be installed."""
    found = {SUBJECT: sys.executable, FLOOR: sys.executable}
    if peers:
        try:
            found |= {RIVAL: str(rival.ensure_web()), "dev": str(rival.ensure_dev())}
        except rival.RivalMissing as reason:
            print(f"not measured, because it can't be installed: {reason}", file=sys.stderr)
    return found


def _sides(case: Case, pythons: dict[str, str]) -> list[str]:
    """The sides of a case that can be measured."""
    return [side for side in case.sides if _python(case, side) in pythons]


def _python(case: Case, side: str) -> str:
    """Whose interpreter serves a side."""
    return "dev" if case.dev and side == RIVAL else side


def _clients(case: Case, *, quick: bool) -> int:
    return min(case.clients, QUICK_CLIENTS) if quick else case.clients


def _attempt(case: Case, side: str, pythons: dict[str, str], counts: list[int]) -> list[Figures]:
    """The figures of a server under so many clients, then so many; none if it can't be measured."""
    if side not in _sides(case, pythons):
        return []
    folder = Path(tempfile.mkdtemp(dir=rival.make_folder()))
    try:
        found = asyncio.run(_measure(case, side, pythons[_python(case, side)], folder, counts))
        stored = token_figures.used_bytes(folder / "runs.db")
    except (TimeoutError, NotRead, OSError) as reason:
        print(f"{case.name} {side}: FAILED: {reason!r}", file=sys.stderr)
        return []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if stored:
        found[-1]["disk_bytes"] = stored / (1 + sum(counts))
    for figures in found:
        told = f"{figures.get('cpu_us', 0):,.0f} us of CPU a {case.unit}"
        print(f"{case.name} {side}: {told}", file=sys.stderr, flush=True)
    return found


async def _measure(
    case: Case, side: str, python: str, folder: Path, counts: list[int]
) -> list[Figures]:
    """Start a server, have it warmed up, and load it."""
    model_port = 0
    if case.kind == "model":
        model = await token_load.model_server(TOKENS, PACE_S)
        model_port = model.sockets[0].getsockname()[1]
    client = token_load.CLIENTS.get(case.kind, token_load.chat)
    environment = _environment(case, side, model_port)
    if _python(case, side) == "dev":
        made = _dev_server(case, python, folder, environment, max(counts))
    else:
        made = _server(FLOOR if side == FLOOR else case.kind, python, folder, environment)
    with made as server:
        async with asyncio.timeout(FIRST_S):
            await client(server.port, "first")
            if case.kind in ("routes", "protocol"):
                await _check_by_sdk(case.kind, server.port)
        return [await _load(case, server, client, count) for count in counts]


async def _load(
    case: Case, server: ServerProcess, client: token_load.Client, count: int
) -> Figures:
    """The figures of so many clients."""
    cpu_s, memory = server.cpu_s(), server.memory_bytes()
    run = token_load.in_turn if case.in_turn else token_load.at_once
    answers = await run(client, server.port, count, f"of-{count}")
    return token_figures.figures_of(
        answers,
        case,
        tokens=TOKENS,
        cpu_s=server.cpu_s() - cpu_s,
        memory=server.peak_bytes() - memory,
    )


def _environment(case: Case, side: str, model_port: int) -> dict[str, str]:
    """The variables of a server process."""
    return {
        **os.environ,
        "LANGSMITH_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
        "TOKEN_LIBRARY": "langgraph" if side == RIVAL else "actorgraph",
        "TOKEN_COUNT": str(TOKENS),
        "TOKEN_PACE_S": str(PACE_S),
        "TOKEN_STAMPS": "1" if case.name == "idle" else "",
        "TOKEN_MODEL_URL": f"http://{token_load.HOST}:{model_port}/v1",
    }


def _server(kind: str, python: str, folder: Path, environment: dict[str, str]) -> ServerProcess:
    port = free_port()
    database = str(folder / "runs.db")
    command = [python, "-m", "tests.bench.token_servers", kind, str(port), database]
    environment = {**environment, "PYTHONPATH": str(rival.ROOT)}
    return ServerProcess(command, port, folder, environment, "/ready-to-measure")


def _dev_server(
    case: Case, python: str, folder: Path, environment: dict[str, str], runs_at_once: int
) -> ServerProcess:
    """`langgraph dev`, which finds the case's graph in a copy of its source."""
    graph = "silent" if case.kind == "silent" else "messages"
    text = Path(__file__).with_name("token_graphs.py").read_text(encoding="utf-8")
    text += f'\n\ngraph = made("{graph}").compile()\n'
    (folder / "graph.py").write_text(text, encoding="utf-8")
    setup = {"dependencies": ["."], "graphs": {"chat": "./graph.py:graph"}}
    (folder / "langgraph.json").write_text(json.dumps(setup), encoding="utf-8")
    port = free_port()
    command = dev_command(Path(python), port, runs_at_once)
    return ServerProcess(command, port, folder, environment)


async def _check_by_sdk(kind: str, port: int) -> None:
    """Read one answer as a program with langgraph-sdk does.

    Raises: NotRead, if it isn't the tokens.
    """
    from langgraph_sdk import get_client

    client = get_client(url=f"http://{token_load.HOST}:{port}")
    text = ""
    if kind == "routes":
        made = await client.threads.create()
        stream = client.runs.stream(
            made["thread_id"], "chat", input=token_load.INPUT, stream_mode="messages-tuple"
        )
        async for part in stream:
            if part.event == "messages":
                data: Any = part.data
                text += data[0]["content"]
    else:
        async with client.threads.stream(assistant_id="chat") as thread:
            await thread.run.start(input=token_load.INPUT)
            messages = [message async for message in thread.messages]
            text = "".join([piece async for piece in messages[-1].text])
    if text != "".join(f"tok{number} " for number in range(TOKENS)):
        raise NotRead(f"langgraph-sdk read {text[:200]!r}")


def _curve(pythons: dict[str, str]) -> list[dict[str, Any]]:
    """The CPU of a token for the chart, by clients at once: a server of each side has all loads."""
    by_name = {case.name: case for case in CASES}
    sides = {FLOOR: "custom", SUBJECT: "messages", RIVAL: "messages"}
    points: dict[int, dict[str, float]] = {count: {} for count in token_figures.CURVE}
    for side, case in sides.items():
        found = _attempt(by_name[case], side, pythons, list(token_figures.CURVE))
        for count, figures in zip(token_figures.CURVE, found, strict=False):
            if "cpu_us" in figures:
                points[count][side] = figures["cpu_us"]
    return [{"name": f"tokens-{count}", "medians": point} for count, point in points.items()]
