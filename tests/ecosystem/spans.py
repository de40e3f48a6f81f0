"""Run programs under a package that traces them, and print their spans as JSON lines.

    python [-m actorgraph.compat -m] tests.ecosystem.spans TRACER

TRACER: openinference, opentelemetry or langfuse. A line is {"way": program and how it was run,
"turn": number, "item": the spans as a tree, with their attributes and no volatile values}.
"""

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.ecosystem.drive import program_of
from tests.ecosystem.normal import normal

PROGRAMS = ("middleware", "supervisor", "traced")
Turn = tuple[Any, dict[str, Any]]


def openinference(exporter: InMemorySpanExporter) -> Sequence[Any]:
    """Instrument LangChain by OpenInference; returns handlers for the config."""
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider_of(exporter))
    return ()


def opentelemetry(exporter: InMemorySpanExporter) -> Sequence[Any]:
    """Instrument LangChain and LangGraph by OpenTelemetry's package; as `openinference`."""
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=provider_of(exporter))
    return ()


def langfuse(exporter: InMemorySpanExporter) -> Sequence[Any]:
    """Make Langfuse's client and handler; as `openinference`."""
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler

    Langfuse(public_key="pk", secret_key="sk", span_exporter=exporter, flush_at=1)  # noqa: S106
    return (CallbackHandler(),)


def provider_of(exporter: InMemorySpanExporter) -> TracerProvider:
    """Set a provider whose spans go to an exporter."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def tree(spans: Sequence[ReadableSpan]) -> list[Any]:
    """The spans below each other, in the order of their beginnings."""
    begun = sorted(spans, key=lambda span: span.start_time or 0)
    own = {span.context.span_id for span in begun}

    def below(parent: int | None) -> list[Any]:
        return [
            shown(span, below(span.context.span_id))
            for span in begun
            if (span.parent.span_id if span.parent and span.parent.span_id in own else None)
            == parent
        ]

    return below(None)


def shown(span: ReadableSpan, children: list[Any]) -> dict[str, Any]:
    """One span as JSON; texts that are JSON are read."""
    attributes = {key: _read(value) for key, value in (span.attributes or {}).items()}
    return {
        "name": normal(span.name),
        "status": span.status.status_code.name,
        "events": [event.name for event in span.events],
        "attributes": normal(attributes),
        "children": children,
    }


def _read(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in {"{", "["}:
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def turn_of(program: Any, saver: Any, handlers: Sequence[Any]) -> tuple[Any, Turn]:
    """Build a program's graph; returns it with an input and a config."""
    graph = program.build(saver, InMemoryStore())
    given = {"messages": [HumanMessage(program.TURNS[0], id="turn-0")]}
    config = {"configurable": {"thread_id": "t", "user": "ann"}, "metadata": {"tenant": "acme"}}
    return graph, (given, {**config, "callbacks": list(handlers)})


async def _read_all(stream: Any) -> None:
    async for _ in stream:
        pass


WAYS: dict[str, Callable[[Any, Turn], Any]] = {
    "invoke": lambda graph, turn: graph.invoke(*turn),
    "stream": lambda graph, turn: list(graph.stream(*turn, stream_mode="updates")),
    "ainvoke": lambda graph, turn: asyncio.run(graph.ainvoke(*turn)),
    "astream": lambda graph, turn: asyncio.run(_read_all(graph.astream(*turn))),
}


def main(tracer: str) -> None:
    """Run the programs, each in every way."""
    exporter = InMemorySpanExporter()
    handlers = globals()[tracer](exporter)
    for name in PROGRAMS:
        for way, run in WAYS.items():
            exporter.clear()
            graph, turn = turn_of(program_of(name), InMemorySaver(), handlers)
            try:
                run(graph, turn)
            except Exception as error:  # noqa: BLE001 - is compared too
                print(json.dumps({"way": f"{name} {way}", "turn": -1, "item": repr(error)}))
                continue
            flush = getattr(trace.get_tracer_provider(), "force_flush", None)
            if flush is not None:
                flush()
            item = tree(exporter.get_finished_spans())
            print(json.dumps({"way": f"{name} {way}", "turn": 0, "item": item}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("LANGFUSE_FLUSH_AT", "1")
    main(sys.argv[1])
