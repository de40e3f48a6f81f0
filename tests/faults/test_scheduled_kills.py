"""A server that is killed between a run's end and its webhook, and around the ticks of a cron.

Slow on purpose: each server is a process of its own, and the shortest tick is a minute, which the
test brings near by setting the cron's time back.
"""

from datetime import UTC, datetime, timedelta

import anyio
import httpx

from actorgraph.stores import SqliteStore
from tests.web.processes import DEADLINE_S, server
from tests.web.receiver import receiving

BODY = {"assistant_id": "log", "input": {"foo": "x"}}


def test_a_webhook_survives_a_kill(tmp_path):
    """
    A webhook that was not accepted before the kill is sent by the next process, with its id.
    """
    with receiving() as receiver:
        port = int(receiver.url.rpartition(":")[2])
        receiver.statuses[:] = [500]
        options = {"module": "tests.web.scheduled_app", "lease_s": 0.5, "port": port}
        with server("uvicorn", tmp_path, **options) as first:
            body = {**BODY, "webhook": f"{receiver.url}/"}
            httpx.post(f"{first.url}/runs", json=body, timeout=DEADLINE_S)
            receiver.wait(1)
            first.kill()
        with server("uvicorn", tmp_path, **options):
            receiver.wait(2)
    ids = {headers["webhook-id"] for headers, _ in receiver.got}

    assert len(ids) == 1
    assert receiver.got[-1][1]["values"]["log"] == ["first", "second"]


def test_a_tick_runs_once_over_kills(tmp_path):
    """
    Two servers are killed in turn around a tick that is due: it has one run, and the webhook of
    that run has one id.
    """
    with receiving() as receiver:
        port = int(receiver.url.rpartition(":")[2])
        options = {"module": "tests.web.scheduled_app", "lease_s": 0.5, "port": port}
        with server("uvicorn", tmp_path, **options) as first:
            cron = {**BODY, "schedule": "0 0 1 1 *", "webhook": f"{receiver.url}/"}
            cron["on_run_completed"] = "keep"
            made = httpx.post(f"{first.url}/runs/crons", json=cron, timeout=DEADLINE_S).json()
            anyio.run(_set_back, tmp_path, made["cron_id"])
            first.kill()
        for _ in range(3):
            with server("uvicorn", tmp_path, **options) as one:
                one.kill()
        with (
            server("uvicorn", tmp_path, **options) as one,
            server("uvicorn", tmp_path, **options),
        ):
            receiver.wait(1)
            anyio.run(anyio.sleep, 1.0)  # time for a second run, if there were one
            found = httpx.post(f"{one.url}/threads/search", json={}, timeout=DEADLINE_S).json()
            place = f"{one.url}/threads/{found[0]['thread_id']}/runs"
            runs = httpx.get(place, timeout=DEADLINE_S).json()

    assert (len(found), [run["status"] for run in runs]) == (1, ["success"])
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1


async def _set_back(path, cron_id: str) -> None:
    """Let the newest tick of a yearly cron be due."""
    async with SqliteStore(path / "items.db") as store:
        item = await store.aget(("actorgraph", "crons"), cron_id)
        since = (datetime.now(UTC) - timedelta(days=366)).isoformat()
        await store.aput(("actorgraph", "crons"), cron_id, {**item.value, "since": since})
