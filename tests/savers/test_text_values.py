"""Texts that programs make: stored, or shown escaped, or refused where they are given."""

from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from structlog.testing import capture_logs

from actorgraph import ActorGraphError, ActorSystem, RunControl, StateGraph
from actorgraph.errors.texts import storable
from actorgraph.values.constants import START
from tests.support.every_saver import Store

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop, pytest.mark.one_loop]

TEXTS = {
    "surrogate": "caf\udce9.txt",
    "nul": "a\0b",
    "long": "x" * 1_000_000,
    "control": "a\nb\x1b[31m",
    "bidi": "a\u202eb",
}
QUICK, MORE = ("surrogate", "nul", "long"), ("control", "bidi")
MISHAPS = {"save.failed", "commit.failed", "events.lost", "trace.failed", "run.not_taken"}


class Program:
    """A graph of one node that notes that it ran, and what is given when it is started."""

    def __init__(self) -> None:
        self.ran = False
        self.node, self.key, self.graph, self.name, self.thread = "a", "k", "graph", "g", "t"
        self.error: Exception | None = None
        self.drains = self.cancels = ""
        self.custom: Any = None
        self.options: dict[str, Any] = {}

    @property
    def end(self) -> str:
        """The status with which it leaves."""
        if self.cancels or self.drains:
            return "cancelled"
        return "success" if self.error is None else "error"

    def compiled(self) -> Any:
        """The graph."""
        state: Any = TypedDict("State", {self.key: str}, total=False)
        control = RunControl()

        async def node(given, *, writer) -> dict[str, str]:
            self.ran = True
            if self.custom is not None:
                writer(self.custom)
            if self.error is not None:
                raise self.error
            if self.drains:
                control.request_drain(self.drains)
            return {self.key: "v"}

        async def last(given) -> None:
            """Nothing more."""

        builder = StateGraph(state)
        builder.add_node(self.node, node)
        builder.add_node("last", last)
        builder.add_edge(START, self.node)
        builder.add_edge(self.node, "last")
        if self.drains:
            self.options["control"] = control
        return builder.compile(name=self.graph)


def _set(name: str) -> Callable[[Program, str], None]:
    return lambda program, text: setattr(program, name, text)


def _option(made: Callable[[str], dict[str, Any]]) -> Callable[[Program, str], None]:
    return lambda program, text: program.options.update(made(text))


def _noted(program: Program, text: str) -> None:
    program.error = ValueError("e")
    program.error.add_note(text)


def _caused(program: Program, text: str) -> None:
    program.error = ValueError("e")
    program.error.__cause__ = ValueError(text)


def _named(program: Program, text: str) -> None:
    kind = type("Named", (Exception,), {})
    kind.__qualname__ = text
    program.error = kind("e")


PLACES: dict[str, Callable[[Program, str], None]] = {
    "error": lambda program, text: setattr(program, "error", ValueError(text)),
    "error note": _noted,
    "error cause": _caused,
    "error class": _named,
    "node name": _set("node"),
    "channel name": _set("key"),
    "graph name": _set("graph"),
    "name in the system": _set("name"),
    "thread": _set("thread"),
    "metadata value": _option(lambda text: {"config": {"metadata": {"m": [{"x": text}]}}}),
    "metadata key": _option(lambda text: {"config": {"metadata": {"m": {text: 1}}}}),
    "run metadata value": _option(lambda text: {"metadata": {"m": text}}),
    "run metadata key": _option(lambda text: {"metadata": {text: "m"}}),
    "tag": _option(lambda text: {"config": {"tags": [text]}}),
    "run name": _option(lambda text: {"config": {"run_name": text}}),
    "custom chunk": _set("custom"),
    "drain reason": _set("drains"),
    "cancel reason": _set("cancels"),
}


@pytest.mark.parametrize("texts", [QUICK, pytest.param(MORE, marks=pytest.mark.long)], ids="-".join)
@pytest.mark.parametrize("where", PLACES)
async def test_a_text_is_stored_or_refused_before_anything_runs(where, texts, store: Store):
    """
    With any text in any place, the run is refused before its first node, by an error
    of the library; or nothing of it fails to be stored, and a later process reads the same end.
    """
    for number, text in enumerate(map(TEXTS.__getitem__, texts)):
        program = Program()
        program.thread = f"t{number}"
        PLACES[where](program, text)
        with capture_logs() as logged:
            try:
                system = ActorSystem({program.name: program.compiled()}, saver=store.again())
                async with system:
                    run = await _ended(system, program)
                    live = (run.status, run.reason)
                    events = [event.kind async for event in run.events()]
            except ActorGraphError:
                assert not program.ran
                run = None
        assert [entry for entry in logged if entry["event"] in MISHAPS] == []
        if run is None:
            continue
        assert live[1] == storable(live[1])
        assert live[0] == program.end
        if store.on_disk:
            async with ActorSystem({program.name: program.compiled()}, saver=store.again()) as new:
                found = await new.run(run.id)
                assert (found.status, found.reason) == live
                assert [event.kind async for event in found.events()] == events


async def _ended(system: ActorSystem, program: Program) -> Any:
    """A run of the program that has left."""
    options: Any = {"stream_mode": ["custom", "values"], **program.options}
    run = await system.start(
        program.name, program.thread, {program.key: "x"}, resumable=True, **options
    )
    if program.cancels:
        await run.cancel(program.cancels)
    await run.wait()
    return run
