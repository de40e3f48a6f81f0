"""`actorgraph check` over ten thousand threads that wait, stored by three versions of a graph."""

import operator
import os
import subprocess
import sys
import time
from typing import Annotated, TypedDict

import anyio
import msgspec
import pytest

from actorgraph import START, JsonlSaver, PostgresSaver, SqliteSaver, StateGraph, interrupt
from actorgraph.values.checked_threads import ThreadCheckReport
from tests.faults.crashes import report
from tests.support.graphs import at

TABLE = "many at once"
THREADS = 10_000
PROGRAM = """
import operator
from typing import Annotated, TypedDict
from actorgraph import START, StateGraph, interrupt

class State(TypedDict, total=False):
    log: Annotated[list, operator.add]

builder = StateGraph(State)
builder.add_node("fetch", lambda state: {"log": ["fetch"]})
builder.add_node("ask", lambda state: {"log": [interrupt("ok?")]})
builder.add_node("reserve", lambda state: {"log": ["book"]})
builder.add_edge(START, "fetch").add_edge(START, "ask").add_edge("fetch", "reserve")
second = builder.compile(name="shop")
"""
VERSIONS = {"first": ("ask", "book"), "second": ("ask", "reserve"), "third": ("review", "reserve")}


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request):
    """
    The command chooses its loop itself.
    """
    return request.param


def version(asks, books, saver):
    """One version of the shop's graph, which asks beside a node that ends."""
    builder = StateGraph(State)
    builder.add_node("fetch", lambda _: {"log": ["fetch"]})
    builder.add_node(asks, lambda _: {"log": [interrupt("ok?")]})
    builder.add_node(books, lambda _: {"log": ["book"]})
    builder.add_edge(START, "fetch").add_edge(START, asks).add_edge("fetch", books)
    return builder.compile(saver, name="shop")


async def plant(saver):
    """Store the threads: of each version a third."""
    graphs = [version(*names, saver) for names in VERSIONS.values()]

    async def begin(first):
        for number in range(first, THREADS, 50):
            await graphs[number % 3].ainvoke({"log": []}, at(f"t{number}"), durability="exit")

    async with saver, anyio.create_task_group() as group:
        for first in range(50):
            group.start_soon(begin, first)


@pytest.fixture(params=["sqlite", "jsonl", "postgres"])
def database(request, tmp_path):
    """
    A saver that isn't open yet, and what `--db` names it by.
    """
    if request.param == "postgres":
        postgres = request.getfixturevalue("postgres")
        schema = request.getfixturevalue("schema")
        mark = "&" if "?" in postgres.url else "?"
        return PostgresSaver(postgres.url, schema=schema), f"{postgres.url}{mark}schema={schema}"
    if request.param == "jsonl":
        return JsonlSaver(tmp_path / "runs"), str(tmp_path / "runs")
    return SqliteSaver(tmp_path / "runs.db"), str(tmp_path / "runs.db")


async def test_ten_thousand_waiting_threads_are_checked(database, tmp_path, request):
    """
    Each version's threads are a group with its count and verdict; the seconds are printed.
    """
    saver, named = database
    await plant(saver)
    (tmp_path / "shop.py").write_text(PROGRAM)

    command = [sys.executable, "-m", "actorgraph", "check", f"{tmp_path}/shop.py:second"]
    began, before = time.perf_counter(), os.times()
    ran = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        [*command, "--db", named, "--json"], capture_output=True, text=True, check=False
    )
    seconds, after = time.perf_counter() - began, os.times()
    checked = msgspec.json.decode(ran.stdout, type=ThreadCheckReport)

    cpu = after.children_user - before.children_user
    kind = type(saver).__name__
    report(
        request.config,
        TABLE,
        f"check {THREADS} threads, {kind} | {seconds:.1f} s, {cpu:.1f} s of CPU",
    )
    assert ran.returncode == 1, ran.stderr
    assert checked.threads == THREADS
    found = sorted((group.count, group.verdict.value) for group in checked.groups)
    assert found == [(3333, "fits"), (3333, "refused"), (3334, "refused")]
