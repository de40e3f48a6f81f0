"""Spans of OpenTelemetry: what a program that traces sees of runs, supersteps and nodes."""

import signal
import subprocess
import sys
import threading
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs

from actorgraph import (
    ActorSystem,
    Command,
    EmptyInputError,
    InMemorySaver,
    RetryPolicy,
    SqliteSaver,
    StateGraph,
    interrupt,
    task,
)
from tests.support.gates import PATIENCE_S, Turnstile, patient_group
from tests.support.graphs import AB, ab, at, in_a_row, side_by_side, writer
from tests.support.structlog_setup import configured
from tests.support.systems import turnstile_first

__all__ = ["configured"]


class Traces:
    """The exported spans."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def runs(self) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith("run ")]

    def above(self, span: ReadableSpan) -> str:
        """The name of the span in which another one is; "" for none."""
        if span.parent is None:
            return ""
        (found,) = [s for s in self.spans if s.context.span_id == span.parent.span_id]
        return found.name


def of(span: ReadableSpan, *names: str) -> tuple[Any, ...]:
    return tuple((span.attributes or {}).get(f"actorgraph.{name}") for name in names)


@pytest.fixture
def traces(monkeypatch):
    """A program that traces everything."""
    made = Traces()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made.exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return made


class TestTree:
    async def test_nodes_are_in_supersteps_in_runs(self, traces):
        """
        A run's span holds one per superstep, and that one per node, with ids and statuses.
        """
        graph = ab(InMemorySaver())
        await graph.ainvoke({"bar": []}, at())

        (run,) = traces.runs()
        first, second = traces.named("superstep")
        a, b = traces.one("a"), traces.one("b")
        states = [state async for state in graph.aget_state_history(at())]
        ids = [s.config["configurable"]["checkpoint_id"] for s in reversed(states)]
        run_id = states[0].metadata["run_id"]
        assert {of(s, "thread_id", "run_id", "status") for s in traces.spans} == {
            ("t", run_id, "success")
        }
        assert (a.parent, b.parent) == (first.context, second.context)
        assert (first.parent, second.parent) == (run.context, run.context)
        assert of(a, "node", "step", "checkpoint_id") == ("a", 1, ids[1])
        assert of(first, "step", "checkpoint_id", "made_checkpoint_id") == (1, ids[1], ids[2])
        assert of(second, "step", "checkpoint_id", "made_checkpoint_id") == (2, ids[2], ids[3])
        assert of(run, "made_checkpoint_id", "durability") == (ids[3], "sync")
        assert run.end_time >= second.end_time >= b.end_time >= second.start_time >= first.end_time

    async def test_spans_opened_by_a_node_are_below_its_span(self, traces):
        """
        Spans of async nodes, of their tasks, of sync nodes in threads and of graphs inside
        are below the node that opened them; the run's is below its caller's.
        """
        tracer = trace.get_tracer("program")

        def opened(name: str) -> None:
            with tracer.start_as_current_span(name):
                pass

        async def waits(state):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, opened, "of a thread of a task")
            opened("of an async node")

        def blocks(state):
            assert threading.current_thread() is not threading.main_thread()
            opened("of a sync node")

        async def outer(state):
            await in_a_row({"inner": writer("inner")}).ainvoke({"bar": []})

        graph = in_a_row({"waits": waits, "blocks": blocks, "outer": outer})
        with tracer.start_as_current_span("request"):
            await graph.ainvoke({"bar": []})

        above = {span.name: traces.above(span) for span in traces.spans}
        assert above["of an async node"] == above["of a thread of a task"] == "waits"
        assert above["of a sync node"] == "blocks"
        assert [traces.above(run) for run in traces.runs()] == ["outer", "request"]
        assert trace.get_current_span() is trace.INVALID_SPAN

    async def test_calls_are_in_what_has_called_them(self, traces):
        """
        A task function's span is inside of that of the node that called it.
        """

        @task
        async def double(number):
            return number * 2

        async def node(state):
            await double(1)

        await in_a_row({"node": node}).ainvoke({"bar": []})

        assert traces.above(traces.one("double")) == "node"

    async def test_nodes_side_by_side_share_a_superstep(self, traces):
        """
        Nodes that run at once are in one superstep, which ends with the last of them.
        """

        async def node(state):
            return {"bar": ["x"]}

        await side_by_side({"a": node, "b": node}).ainvoke({"bar": []})

        step = traces.one("superstep")
        assert (traces.above(traces.one("a")), traces.above(traces.one("b"))) == ("superstep",) * 2
        assert step.end_time == max(traces.one("a").end_time, traces.one("b").end_time)


class TestEnds:
    async def test_an_error_is_recorded_where_it_was_raised(self, traces):
        """
        The node's span has the exception; superstep and run fail with it.
        """

        async def broken(state):
            raise ZeroDivisionError("no")

        with pytest.raises(ZeroDivisionError):
            await in_a_row({"broken": broken}).ainvoke({"bar": []})

        assert {of(span, "status") for span in traces.spans} == {("error",)}
        assert {span.status.status_code for span in traces.spans} == {StatusCode.ERROR}
        (event,) = traces.one("broken").events
        assert event.attributes["exception.type"] == "ZeroDivisionError"
        assert traces.runs()[0].status.description == "ZeroDivisionError: no"

    async def test_a_task_that_is_tried_again_has_one_span(self, traces):
        """
        Attempts are events of their task's span, which ends as the last of them.
        """
        calls = []

        async def shaky(state):
            calls.append(1)
            if len(calls) < 3:
                raise ConnectionError

        builder = StateGraph(AB)
        policy = RetryPolicy(initial_interval=0, jitter=False)
        builder.add_node("shaky", shaky, retry_policy=policy).set_entry_point("shaky")
        await builder.compile().ainvoke({"bar": []})

        span = traces.one("shaky")
        assert of(span, "status") == ("success",)
        assert [e.attributes["actorgraph.attempt"] for e in span.events] == [2, 3]

    def test_a_blocking_call_has_the_same_spans(self, traces):
        """
        Tasks of a blocking call that succeed, fail and are tried again end as such in their spans.
        """
        calls = []

        def shaky(state):
            calls.append(1)
            if len(calls) < 3:
                raise ConnectionError

        def fails(state):
            raise KeyError("x")

        builder = StateGraph(AB)
        policy = RetryPolicy(initial_interval=0, jitter=False)
        builder.add_node("shaky", shaky, retry_policy=policy).set_entry_point("shaky")
        builder.add_node("fails", fails).add_edge("shaky", "fails")
        with pytest.raises(KeyError):
            builder.compile().invoke({"bar": []})

        assert of(traces.one("shaky"), "status") == ("success",)
        assert [e.name for e in traces.one("shaky").events].count("retry") == 2
        assert of(traces.one("fails"), "status") == ("error",)

    async def test_a_cancelled_run_leaves_no_span_open(self, traces):
        """
        The caller that cancels a run still gets all its spans, ended.
        """
        slow = Turnstile()
        async with patient_group() as group:
            group.start_soon(turnstile_first(slow).ainvoke, {"bar": []})
            await slow.entered.wait()
            group.cancel_scope.cancel()

        assert [of(span, "status") for span in traces.runs()] == [("cancelled",)]
        assert of(traces.one("a"), "status") == ("cancelled",)

    def test_a_run_that_ctrl_c_ends_was_cancelled(self, traces):
        """
        Ctrl-C in a function of a blocking call cancels its run, as elsewhere; no span has an error.
        """

        def node(state):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            in_a_row({"node": node}).invoke({})

        ended = (*traces.runs(), traces.one("node"))
        assert [of(span, "status") for span in ended] == [("cancelled",)] * 2
        assert {span.status.status_code for span in traces.spans} == {StatusCode.UNSET}

    def test_a_blocking_call_that_ctrl_c_ends_while_it_waits_was_cancelled(self, traces):
        """
        Ctrl-C that comes while other threads perform the functions of a call cancels its run.
        """
        over = threading.Event()

        def node(state):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            over.wait(PATIENCE_S)

        graph = side_by_side({"a": node, "b": lambda _: None}, checkpointer=InMemorySaver())
        with pytest.raises(KeyboardInterrupt):
            graph.invoke({"bar": []}, at(), durability="async")
        over.set()

        assert [of(span, "status") for span in traces.runs()] == [("cancelled",)]

    async def test_a_run_that_is_refused_says_why(self, traces):
        """
        A run that could not begin has a span with the error.
        """
        with pytest.raises(EmptyInputError):
            await ab(InMemorySaver()).ainvoke(None, at())

        (run,) = traces.runs()
        assert run.status.description.startswith("EmptyInputError")

    async def test_a_graph_is_called_as_its_system_calls_it(self, traces):
        """
        The span of a run in a system has the system's name of a graph without one.
        """
        async with ActorSystem({"support": ab()}) as system:
            await (await system.start("support", "t", {"bar": []})).result()

        assert of(traces.one("run support"), "graph") == ("support",)

    async def test_a_run_that_was_cancelled_before_it_began_has_none(self, traces):
        """
        A run that is cancelled as soon as it was accepted has no span: nothing of it has run.
        """
        async with ActorSystem({"g": ab()}) as system:
            await (await system.start("g", "t", {"bar": []})).cancel()

        assert traces.spans == []

    @pytest.mark.usefixtures("configured")
    @pytest.mark.parametrize("when", ["on_start", "on_end"])
    async def test_a_processor_that_fails_changes_nothing(self, monkeypatch, when):
        """
        An error of a processor is logged, and the run ends as ever.
        """

        def fail(*_):
            raise ZeroDivisionError

        processor = SpanProcessor()
        monkeypatch.setattr(processor, when, fail)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
        with capture_logs() as logs:
            result = await ab().ainvoke({"bar": []})

        assert result["bar"] == ["a", "b"]
        assert {e["log_level"] for e in logs if e["event"] == "trace.failed"} == {"warning"}


class TestLinks:
    async def test_an_answer_links_to_the_run_that_asked(self, traces, tmp_path):
        """
        A resumed run is linked to the one whose interrupt it answers, in another process too,
        and after an update of the state between them.
        """

        async def ask(state):
            return {"foo": interrupt("why?")}

        async def again(given):
            async with SqliteSaver(tmp_path / "runs.db") as saver:
                graph = in_a_row({"ask": ask}, checkpointer=saver)
                if given == "update":
                    await graph.aupdate_state(at(), {"bar": ["b"]}, as_node="__start__")
                else:
                    await graph.ainvoke(given, at())

        await again({"bar": []})
        await again("update")
        await again(Command(resume="so"))
        await again({"bar": ["new"]})

        asked, answered, new = traces.runs()
        assert [of(run, "status") for run in (asked, answered)] == [("interrupted",), ("success",)]
        (link,) = answered.links
        assert link.context.span_id == asked.context.span_id
        assert link.context.trace_id == asked.context.trace_id != answered.context.trace_id
        assert (asked.links, new.links) == ((), ())

    async def test_a_run_after_a_crash_links_to_the_one_that_broke(self, traces):
        """
        A run that goes on with None is linked to the one that failed, and that one to nothing.
        """
        calls = []

        async def shaky(state):
            calls.append(1)
            if len(calls) == 1:
                raise ConnectionError

        graph = in_a_row({"a": writer("a"), "shaky": shaky}, checkpointer=InMemorySaver())
        with pytest.raises(ConnectionError):
            await graph.ainvoke({"bar": []}, at())
        await graph.ainvoke(None, at())

        broken, again = traces.runs()
        assert [of(run, "status") for run in (broken, again)] == [("error",), ("success",)]
        assert [link.context.span_id for link in again.links] == [broken.context.span_id]
        assert broken.links == ()

    async def test_a_recovered_run_links_to_the_one_that_was_left(self, traces, tmp_path):
        """
        A run that the next system takes up is linked to the span under which it was drained.
        """
        slow = Turnstile({"bar": ["a"]})
        for _ in range(2):
            graph = turnstile_first(slow)
            async with ActorSystem({"g": graph}, saver=SqliteSaver(tmp_path / "r.db")) as system:
                runs = await system.recover()
                if not runs:
                    await system.start("g", "t", {"bar": ["x"]})
                    await slow.entered.wait()
                    slow.out.set()
                    await system.drain()
                for run in runs:
                    await run.result()

        left, taken = traces.runs()
        assert [of(run, "status", "run_id") for run in (left, taken)] == [
            ("drained", run.id),
            ("success", run.id),
        ]
        assert [link.context.span_id for link in taken.links] == [left.context.span_id]


class TestOff:
    async def test_a_run_that_is_not_sampled_costs_one_span(self, monkeypatch):
        """
        Of a run that is not sampled neither are its nodes, and nothing is stored of it.
        """
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(ALWAYS_OFF))
        seen = []

        async def node(state):
            seen.append(trace.get_current_span())

        graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
        await graph.ainvoke({"bar": []}, at())

        assert [span.is_recording() for span in seen] == [False]
        assert seen[0].get_span_context().is_valid
        assert "traceparent" not in (await graph.aget_state(at())).metadata

    async def test_a_program_that_traces_nothing_stores_nothing(self):
        """
        With the package imported and no provider set, runs are as they were.
        """
        graph = ab(InMemorySaver())
        await graph.ainvoke({"bar": []}, at())

        assert "traceparent" not in (await graph.aget_state(at())).metadata

    def test_nothing_is_imported_without_the_package(self):
        """
        Where OpenTelemetry isn't installed, runs neither miss nor import it.
        """
        program = """
import sys, anyio
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
from actorgraph import StateGraph
graph = StateGraph(dict).add_node("a", lambda s: {"x": 1}).set_entry_point("a").compile()
anyio.run(graph.ainvoke, {})
ours = "actorgraph.runtime.run.tracing"
print([name for name in sys.modules if "opentelemetry" in name or name == ours])
"""
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

        assert (done.stdout, done.stderr) == ("[]\n", "")
