"""`/metrics`: what Prometheus reads of a running server."""

import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from actorgraph import START, ActorSystem, InMemorySaver, SqliteSaver, StateGraph, sleep
from actorgraph.api.system.prometheus import exposition
from actorgraph.dispatch import InMemoryDispatcher
from actorgraph.testing import ManualClock
from actorgraph.web import GraphRoutes
from tests.support.graphs import ab
from tests.support.source_files import ROOT
from tests.web.apps import GRAPHS, application
from tests.web.server import running

BODY = {"assistant_id": "log", "input": {"foo": "x"}, "if_not_exists": "create"}


def scraped(url: str) -> dict[str, dict[str, float]]:
    """Metric -> sample, with its labels -> value; parsed as Prometheus does."""
    answer = httpx.get(f"{url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found.setdefault(family.name, {})[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_a_running_server_is_scraped(tmp_path: Path):
    """
    Runs by status, supersteps, mailboxes, saturation and the saver's histograms are reported.
    """
    with running(application(tmp_path / "runs.db")) as url, httpx.Client(base_url=url) as client:
        before = scraped(url)
        client.post("/threads/t/runs/wait", json=BODY).raise_for_status()
        client.post("/threads/u/runs/wait", json={**BODY, "assistant_id": "ask"})
        client.post("/threads/v/runs/wait", json={**BODY, "assistant_id": "fail"})
        after = scraped(url)

    assert before["actorgraph_supersteps"] == {"actorgraph_supersteps_total{}": 0}
    assert after["actorgraph_runs"] == {
        "actorgraph_runs_total{status=error}": 1,
        "actorgraph_runs_total{status=interrupted}": 1,
        "actorgraph_runs_total{status=success}": 1,
    }
    assert after["actorgraph_supersteps"]["actorgraph_supersteps_total{}"] == 4
    for gauge in ("mailbox_depth", "saturated", "draining", "runs_active", "unsaved_requests"):
        assert list(after[f"actorgraph_{gauge}"].values()) == [0]
    commits = after["actorgraph_commits"]["actorgraph_commits_total{}"]
    requests = after["actorgraph_commit_requests"]["actorgraph_commit_requests_total{}"]
    assert commits > 3
    for name in ("commit_duration_seconds", "durable_lag_seconds", "commit_batch_size"):
        family = after[f"actorgraph_{name}"]
        bins = [value for sample, value in family.items() if "_bucket{" in sample]
        assert bins == sorted(bins)
        assert bins[-1] == family[f"actorgraph_{name}_count{{}}"] == commits
    sizes, lags = after["actorgraph_commit_batch_size"], after["actorgraph_durable_lag_seconds"]
    took = after["actorgraph_commit_duration_seconds"]
    assert sizes["actorgraph_commit_batch_size_sum{}"] == requests
    assert (
        lags["actorgraph_durable_lag_seconds_sum{}"]
        >= took["actorgraph_commit_duration_seconds_sum{}"]
        > 0
    )


async def test_without_the_package_the_answer_says_so(monkeypatch):
    """
    Where prometheus-client isn't installed, the answer is 501 and how to get it.
    """
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    system = ActorSystem({"g": ab()}, saver=InMemorySaver())
    transport = httpx.ASGITransport(GraphRoutes(system))
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        answer = await client.get("/metrics")

    assert answer.status_code == 501
    assert "pip install 'actorgraph[metrics]'" in answer.json()["detail"]


@pytest.mark.parametrize(("leave", "status"), [(True, 200), (False, 403)])
async def test_figures_are_for_those_who_may_read_them(leave, status):
    """
    Where leave is asked, figures need it too.
    """
    asked = []

    def may(principal, action, thread_id, metadata):
        asked.append(action)
        return leave

    system = ActorSystem({"g": ab()}, saver=InMemorySaver())
    app = GraphRoutes(system, authorize=may, authenticate=lambda request: "prometheus")
    transport = httpx.ASGITransport(app)
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        answer = await client.get("/metrics")

    assert (answer.status_code, asked) == (status, ["metrics.read"])


NAME = re.compile(r"actorgraph_[a-z_]+")
ALERTED = {
    *("graph_runs_total", "node_errors_total", "node_seconds_total", "run_duration_seconds_bucket"),
    *("threads_waiting", "threads_waiting_oldest_seconds", "threads_cut_off", "runs_parked"),
    "escalations_failed_total",
    *("runs_suspect", "runs_tried_alone_total", "sessions_renewed_total"),
    "requests_refused_total",
    *("dispatch_away_seconds", "dispatch_unreadable_total"),
}
"""Metrics of which there must be an alert."""


async def samples_of(tmp_path: Path, threads: int) -> list[Any]:
    """The samples of a system with all parts, after runs that end in each way."""
    saver = SqliteSaver(tmp_path / f"{threads}.db")
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    parts: dict[str, Any] = {"dispatcher": InMemoryDispatcher(), "max_threads": 4}
    system = ActorSystem(graphs, saver=saver, loop_limit_s=5.0, **parts)
    transport = httpx.ASGITransport(GraphRoutes(system))
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        for number in range(threads):
            for graph in ("log", "ask", "fail"):
                body = {**BODY, "assistant_id": graph}
                await client.post(f"/threads/{graph}-{number}/runs/wait", json=body)
        text = (await client.get("/metrics")).text
    families = text_string_to_metric_families(text)
    return [sample for family in families for sample in family.samples]


def alert_rules() -> list[str]:
    """The expressions of the alert rules of docs/operations.md."""
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    return re.findall(r"^ +expr: (.*)$", page, re.MULTILINE)


class TestNames:
    async def test_each_metric_is_documented_and_each_documented_one_exists(self, tmp_path):
        """
        The table of docs/observability.md has the metrics of a system with all parts, and no other.
        """
        found = {re.sub(r"_(bucket|count|sum)$", "", s.name) for s in await samples_of(tmp_path, 1)}
        page = (ROOT / "docs" / "observability.md").read_text("utf-8")
        rows = page.partition("| metric `actorgraph_...` |")[2].partition("\n\n")[0]
        cells = [row.split("|")[1] for row in rows.splitlines()[2:]]
        named = re.findall(r"`([a-z_]+)(?:\{[a-z,]+\})?`", " ".join(cells))

        def bare(names: Any) -> set[str]:
            return {name.removeprefix("actorgraph_").removesuffix("_total") for name in names}

        assert bare(named) == bare(found)

    async def test_alert_rules_are_about_metrics_that_exist(self, tmp_path):
        """
        Each rule's names and labels are those of a system's metrics, its brackets are closed, and
        runs, nodes, questions, parked runs, suspects and sessions have a rule.
        """
        samples = await samples_of(tmp_path, 1)
        labels: dict[str, set[str]] = {}
        for sample in samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
        used: set[str] = set()
        rules = alert_rules()
        for rule in rules:
            names = set(NAME.findall(rule))
            used |= names
            assert names, rule
            assert names <= labels.keys(), rule
            known = set().union(*(labels[name] for name in names))
            grouped = re.findall(r"by \(([a-z, ]+)\)", rule)
            asked = {one.strip() for group in grouped for one in group.split(",")}
            asked |= set(re.findall(r"[{,]([a-z_]+)=", rule))
            assert asked <= known, rule
            assert all(rule.count(a) == rule.count(b) for a, b in ("()", "[]", "{}")), rule

        assert len(rules) > 10
        assert {f"actorgraph_{name}" for name in ALERTED} <= used


class TestFigures:
    async def test_graphs_nodes_and_threads_are_counted(self, tmp_path):
        """
        Runs and tasks by graph and node, with errors and time; threads by their phase. More threads
        make no more samples.
        """
        samples = await samples_of(tmp_path, 1)
        found = {(s.name, *s.labels.values()): s.value for s in samples}
        more = await samples_of(tmp_path, 2)

        assert found["actorgraph_graph_runs_total", "fail", "error"] == 1
        assert found["actorgraph_graph_runs_total", "ask", "interrupted"] == 1
        assert found["actorgraph_run_duration_seconds_count", "log"] == 1
        failed = [k[2] for k in found if k[0] == "actorgraph_node_errors_total" and found[k]]
        assert len(failed) == 1
        assert found["actorgraph_node_seconds_total", "fail", failed[0]] > 0
        assert found["actorgraph_threads_waiting",] == 1
        assert 0 < found["actorgraph_threads_waiting_oldest_seconds",] < 60
        assert found["actorgraph_threads_cut_off",] == found["actorgraph_runs_parked",] == 0
        assert len(more) == len(samples)

    async def test_a_sleeping_thread_waits_for_no_person(self, tmp_path):
        """
        A thread that sleeps is counted as one that sleeps; what the clock has done is counted too.
        """

        async def naps(_: Any) -> dict[str, Any]:
            await sleep(60.0)
            await sleep(3600.0)
            return {}

        graph = StateGraph(dict[str, Any]).add_node(naps).add_edge(START, "naps").compile()
        async with SqliteSaver(tmp_path / "naps.db") as saver:
            with ManualClock(saver) as clock:
                async with ActorSystem({"naps": graph}, saver=saver) as system:
                    await (await system.start("naps", "t", {})).wait()
                    await clock.advance(timedelta(minutes=2))
                    await system.thread_counter.look()
                    text = exposition(system)[0].decode()

        for sample in ("threads_waiting 0", "threads_sleeping 1", "questions_due_total 1"):
            assert f"\nactorgraph_{sample}.0\n" in text
