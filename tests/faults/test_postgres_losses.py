"""T9: connections to PostgreSQL are killed, its server stops, its network stalls: many times.

Runs go on meanwhile on several threads. None may fail while the server comes back within ten
seconds, and every checkpoint is stored once.
"""

import random
import threading
import time
from collections import Counter

import anyio
import pytest

from actorgraph import PostgresSaver
from tests.faults.crashes import FIGURES
from tests.support.graphs import at, chain
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import Proxy, proxied

STEPS = "abcdefgh"
KILLS = 200
RESTARTS = 8
STALLS = 30
CUTS = 200
PAUSE_MAX_S = 0.15
"""Between two of a kind: with less no connection would live for long enough to do anything."""
TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = 'actorgraph' AND state <> 'idle' AND pid <> pg_backend_pid()
"""


class Harm:
    """Does something harmful again and again, from a thread of its own, a number of times."""

    def __init__(self, postgres: PostgresServer, proxy: Proxy) -> None:
        self.postgres = postgres
        self.proxy = proxy
        self.done = 0
        self.random = random.Random(1)

    def kills(self) -> None:
        """End backends while they work on something."""
        with self.postgres.connect() as db:
            while self.done < KILLS:
                time.sleep(self.random.uniform(0, PAUSE_MAX_S))
                self.done += db.execute(TERMINATE).fetchone()[0]

    def restarts(self) -> None:
        """Stop the server, start it again after up to two seconds."""
        for _ in range(RESTARTS):
            self.postgres.stop()
            time.sleep(self.random.uniform(0, 2))
            self.postgres.start()
            time.sleep(0.5)
            self.done += 1

    def stalls(self) -> None:
        """Let nothing through for a while, sometimes for longer than the saver waits."""
        for _ in range(STALLS):
            self.proxy.stall()
            time.sleep(self.random.uniform(0.05, 1.0))
            self.proxy.resume()
            time.sleep(0.1)
            self.done += 1

    def resets(self) -> None:
        """Break connections at any moment."""
        while self.done < CUTS:
            time.sleep(self.random.uniform(0, PAUSE_MAX_S))
            self.done += self.proxy.reset()

    def swallows(self) -> None:
        """Break the connection after COMMIT was sent, before the answer."""
        while self.proxy.swallowed < CUTS:
            self.proxy.swallow_commits(1)
            time.sleep(0.01)
        self.done = self.proxy.swallowed


async def under(harm: Harm, kind: str, saver: PostgresSaver) -> Counter[str]:
    """Run graphs on new threads, eight at a time, until the harm is done."""
    seen: Counter[str] = Counter()
    thread = threading.Thread(target=getattr(harm, kind))
    graph = chain(STEPS, checkpointer=saver)

    async def worker(number: int) -> None:
        while thread.is_alive():
            seen["runs"] += 1
            try:
                found = await graph.ainvoke({}, at(f"t{number}-{seen['runs']}"))
            except Exception as error:  # noqa: BLE001 - counted; none may come
                seen["failed"] += 1
                seen[repr(error)] += 1
            else:
                seen["wrong"] += found["bar"] != [*STEPS]

    async with saver:
        thread.start()
        async with anyio.create_task_group() as workers:
            for number in range(8):
                workers.start_soon(worker, number)
    return seen


@pytest.mark.promise("T9")
@pytest.mark.parametrize("kind", ["kills", "restarts", "stalls", "resets", "swallows"])
async def test_runs_go_on_and_nothing_is_stored_twice(
    postgres, schema, kind, anyio_backend_name, request
):
    """
    Failed runs 0, duplicates 0, gaps 0.
    """
    with proxied(postgres.socket) as proxy:
        harm = Harm(postgres, proxy)
        url = proxy.url if kind in {"stalls", "resets", "swallows"} else postgres.url
        saver = PostgresSaver(url, schema=schema, answer_timeout_s=0.5, reconnect_timeout_s=10)
        began = time.monotonic()
        seen = await under(harm, kind, saver)
        took = time.monotonic() - began
    with postgres.connect(schema) as db:
        rows, ids, short = db.execute(
            "SELECT sum(n), sum(ids), count(*) FILTER (WHERE n <> %s OR top <> n) FROM ("
            "SELECT count(*) n, count(DISTINCT id) ids, max(seq) top FROM checkpoints "
            "GROUP BY thread) AS threads",
            (len(STEPS) + 2,),
        ).fetchone()
    line = (
        f"| {kind} | {anyio_backend_name} | {harm.done} | {seen['runs']} | {seen['failed']} "
        f"| {rows - ids} | {short} | {took:.0f} |"
    )
    request.config.stash.setdefault(FIGURES, {}).setdefault("PostgreSQL losses", []).append(line)

    assert (seen["failed"], seen["wrong"], rows - ids, short) == (0, 0, 0, 0), seen
