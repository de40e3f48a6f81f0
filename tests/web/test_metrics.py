"""`/metrics`: what Prometheus reads of a running server."""

import sys
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.web import GraphRoutes
from tests.support.graphs import ab
from tests.web.apps import application
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
