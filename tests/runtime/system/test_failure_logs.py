"""Failed runs of a system in the application's log."""

import logging
import subprocess
import sys

import anyio
import httpx
import pytest
import structlog

from actorgraph import START, ActorSystem, InMemorySaver, SqliteSaver, StateGraph
from actorgraph.web import GraphRoutes
from tests.support.structlog_setup import configured

__all__ = ["configured"]

PROGRAM = """
import anyio
from actorgraph import START, ActorSystem, InMemorySaver, StateGraph

def bill(state):
    secret = "s3" + "cret"
    raise ValueError("no database")

async def main():
    graph = StateGraph(dict).add_node(bill).add_edge(START, "bill").compile()
    async with ActorSystem({"bills": graph}, saver=InMemorySaver()) as system:
        run = await system.start("bills", "t", {})
        async for event in run.events():
            pass

anyio.run(main)
"""


def bill(state):
    """A node that fails."""
    raise ValueError("no database, 100%s")


def graph_of(node=bill):
    return StateGraph(dict).add_node("bill", node).add_edge(START, "bill").compile()


async def left_alone(graph):
    """Start a run, and read its events to the end without asking for its result."""
    async with ActorSystem({"bills": graph}, saver=InMemorySaver()) as system:
        run = await system.start("bills", "t", {})
        async for _ in run.events():
            pass
        return run


class TestFailures:
    async def test_structlog_has_the_error_and_the_run(self, configured):
        """
        A run that fails, and whose result is asked for by none, is one event at error level, with
        the run's ids, its graph, and the error that a processor makes a traceback of.
        """
        with structlog.testing.capture_logs() as logs:
            run = await left_alone(graph_of())

        (failed,) = [entry for entry in logs if entry["event"] == "run.failed"]
        error = failed.pop("exc_info")
        assert failed == {
            "event": "run.failed",
            "log_level": "error",
            "thread_id": "t",
            "run_id": run.id,
            "graph": "bills",
            "error": "ValueError: no database, 100%s",
        }
        assert isinstance(error, ValueError)
        assert error.__traceback__ is not None

    async def test_logging_has_them_where_structlog_is_not_configured(self, caplog):
        """
        An application that has configured `logging` alone gets the same event by it: as a line,
        as fields, and with the traceback that names the node's function.
        """
        caplog.set_level(logging.INFO, "actorgraph")

        run = await left_alone(graph_of())

        (failed,) = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert failed.getMessage().startswith("run.failed thread_id='t' run_id=")
        assert failed.getMessage().endswith("error='ValueError: no database, 100%s'")
        assert failed.actorgraph["run_id"] == run.id
        assert "in bill\n" in caplog.text
        assert "run.left" in caplog.text

    @pytest.mark.parametrize("ending", ["success", "cancelled", "interrupted"])
    async def test_other_endings_are_not_logged_as_failures(self, ending, configured):
        """
        A run that has ended well, was cancelled or waits for a person is not logged as a failure.
        """

        async def node(state):
            from actorgraph import interrupt

            if ending == "interrupted":
                interrupt("?")
            if ending == "cancelled":
                await run_of["run"].cancel()
                await anyio.sleep_forever()
            return {}

        run_of = {}
        with structlog.testing.capture_logs() as logs:
            async with ActorSystem({"bills": graph_of(node)}, saver=InMemorySaver()) as system:
                run_of["run"] = run = await system.start("bills", "t", {}, delay_s=0.01)
                async for _ in run.events():
                    pass

        assert run.status == ending
        assert [each for each in logs if each["event"] == "run.failed"] == []

    async def test_a_run_that_never_began_is_logged_too(self, configured):
        """
        Of runs that fail before their first node, at their deadline, or while they are set up after
        a takeover, each is one event with its error; so is a failure inside a subgraph.
        """

        async def sleep(state):
            await anyio.sleep(0.02)  # longer than the deadline, which is looked at afterwards

        slow = StateGraph(dict).add_sequence([sleep, bill]).add_edge(START, "sleep").compile()
        below = graph_of()
        builder = StateGraph(dict).add_node("below", below).add_edge(START, "below")
        graphs = {"slow": slow, "nested": builder.compile(), "bills": graph_of()}
        with structlog.testing.capture_logs() as logs:
            async with ActorSystem(graphs, saver=InMemorySaver()) as system:
                late = await system.start("slow", "late", {}, deadline_s=0.001)
                nested = await system.start("nested", "nested", {})
                empty = await system.start("bills", "empty", None)
                for run in (late, nested, empty):
                    await run.wait()

        failed = {log["thread_id"]: log for log in logs if log["event"] == "run.failed"}
        assert sorted(failed) == ["empty", "late", "nested"]
        assert all(isinstance(log["exc_info"], Exception) for log in failed.values())
        assert all(log["log_level"] == "error" for log in failed.values())

    async def test_runs_of_a_server_are_logged_once(self, configured, tmp_path):
        """
        A run in the background and one that a client waits for are one event each, although the
        client gets the error too.
        """
        saver = SqliteSaver(tmp_path / "runs.db")
        system = ActorSystem({"bills": graph_of()}, saver=saver)
        transport = httpx.ASGITransport(GraphRoutes(system))
        body = {"assistant_id": "bills", "input": {}, "if_not_exists": "create"}
        with structlog.testing.capture_logs() as logs:
            async with (
                system,
                httpx.AsyncClient(transport=transport, base_url="http://t") as client,
            ):
                for thread_id, way in (("a", "runs"), ("b", "runs/wait")):
                    answer = await client.post(f"/threads/{thread_id}/{way}", json=body)
                    assert answer.status_code == 200
                for run in await system.runs():
                    await run.wait()

        failed = [log["thread_id"] for log in logs if log["event"] == "run.failed"]
        assert sorted(failed) == ["a", "b"]

    async def test_a_batch_returns_its_failures_instead(self, configured):
        """
        The error of a batch's thread is in its result, and not in the log as well.
        """
        with structlog.testing.capture_logs() as logs:
            async with ActorSystem({"bills": graph_of()}, saver=InMemorySaver()) as system:
                results = [each async for each in system.map("bills", [{}], key=lambda _: "k")]

        assert [str(each.error) for each in results] == ["no database, 100%s"]
        assert [each for each in logs if each["event"] == "run.failed"] == []

    def test_a_program_without_any_log_gets_a_plain_traceback(self):
        """
        On standard error the traceback has no variables of the frames, which may be secrets.
        """
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        )

        assert "run.failed" in done.stderr
        assert "ValueError: no database" in done.stderr
        assert "in bill" in done.stderr
        assert "s3cret" not in done.stderr
