"""Runs a spec's turns against a built graph and writes down what can be seen.

A turn is `["input", n]`; `["next", which]`: answer all waiting questions, the first or the last of
them, or go on where none waits; `["go"]`: go on without an answer; `["update", node]`;
`["replay", k]`: go on from the k-th newest checkpoint that has tasks; `["object", n]`: an input as
an object of the state's class; `["change"]`: the graph is another one from here on, see changes.py.
A turn that has nothing to do is left out.
"""

import json
from collections import Counter
from contextlib import nullcontext
from typing import Any

from tests.differential.blocking import Blocking
from tests.differential.builder import Built
from tests.differential.changes import named_back
from tests.differential.schemas import made_object
from tests.differential.tools import shown_message
from tests.differential.trace import Spec, Trace

PLACE = {"configurable": {"thread_id": "t"}}


async def drive(library: Any, built: Built, spec: Spec) -> Trace:
    """The trace: one entry per turn."""
    driver = Driver(library, built, spec)
    # Blocking methods need no open saver, and run in no event loop.
    async with built.saver if driver.awaits else nullcontext():
        for turn in spec["turns"]:
            if not await driver.take(turn):
                break
    if driver.trace:
        calls = Counter[str]()
        for name, count in built.calls.items():
            calls[named_back(name) if built.names else name] += count
        driver.trace[-1]["calls"] = dict(sorted(calls.items()))
    trace = json.loads(json.dumps(driver.trace))
    return named_back(trace) if built.names else trace


class Driver:
    """One thread of one graph."""

    def __init__(self, library: Any, built: Built, spec: Spec) -> None:
        self.library, self.built, self.graph, self.spec = library, built, built.graph, spec
        self.awaits = not isinstance(built.graph, Blocking)
        self.trace: Trace = []
        self.state: Any = None

    async def take(self, turn: list[Any]) -> bool:
        """Do one turn; whether the thread can take another one."""
        kind = turn[0]
        config = {**PLACE, "recursion_limit": self.spec["limit"]}
        self.called = self.built.calls.total()
        if kind == "change":
            return await self.change()
        if kind in ("input", "object"):
            given: Any = {"n": turn[1], "log": [f"in{turn[1]}"]}
            if kind == "object":
                given = made_object(self.built.spec, self.built.schemas[""][0], given)
            kind = "input"
        elif kind == "replay":
            points = [s async for s in self.graph.aget_state_history(PLACE) if s.next]
            if not points:
                return True
            given, point = None, points[turn[1] % len(points)]
            config |= {"configurable": point.config["configurable"]}
            kind = "replay head" if point.config == self.state.config else kind
        elif kind == "update":
            node = self.built.names.get(turn[1], turn[1])
            if any(t.name == node and t.result is not None for t in self.state.tasks):
                return True  # LangGraph would mix the writes of the task and of the update
            outcome = await self.update(node)
            return await self.note(kind, outcome)
        elif not self.state.next:
            return True
        else:
            given = self.answer(turn[1]) if kind == "next" else None
            by_id = isinstance(getattr(given, "resume", None), dict)
            kind = "go" if given is None else "answer by id" if by_id else "answer"
        return await self.note(kind, await self.run(given, config))

    async def change(self) -> bool:
        """Go on with the changed graph."""
        try:
            self.built.change()
        except Exception as error:  # noqa: BLE001 - its kind is compared
            name = "ValueError" if isinstance(error, ValueError) else type(error).__name__
            outcome = {"error": name}
            self.trace.append({"given": "change", "outcome": outcome, "state": {}, "ran": 0})
            return False
        self.graph = self.built.graph
        return await self.note("change", {})

    def answer(self, which: str) -> Any:
        """A Command with answers to what waits, or None where nothing does."""
        waiting = sorted(self.state.interrupts, key=lambda question: question.value)
        if not waiting:
            return None
        if len(waiting) == 1 and which == "all":
            return self.library.Command(resume=f"re {waiting[0].value}")
        chosen = {"all": waiting, "first": waiting[:1], "last": waiting[-1:]}[which]
        return self.library.Command(resume={i.id: f"re {i.value}" for i in chosen})

    async def run(self, given: Any, config: dict[str, Any]) -> dict[str, Any]:
        """One run, as what came out of it."""
        options = {"durability": self.spec["durability"]}
        updates: list[Any] = []
        values: list[Any] = []
        result: Any = None
        try:
            if self.spec["via"] == "invoke":
                result = await self.graph.ainvoke(given, config, **options)
            else:
                modes = ["values", "updates"]
                stream = self.graph.astream(given, config, stream_mode=modes, **options)
                async for mode, chunk in stream:
                    if mode == "values":
                        values.append(plain(chunk))
                    else:
                        updates.append(plain(chunk))
        except Exception as error:  # noqa: BLE001 - its kind is compared
            return {"error": type(error).__name__}
        if self.spec["via"] == "stream":
            return {"chunks": values, "updates": sorted(updates, key=str)}
        asked = result.pop("__interrupt__", ()) if isinstance(result, dict) else ()
        return {"values": plain(result), "interrupts": [i.value for i in asked]}

    async def update(self, node: str | None) -> dict[str, Any]:
        """An update of the state from outside."""
        try:
            await self.graph.aupdate_state(PLACE, {"n": 1, "log": ["up"]}, as_node=node)
        except Exception as error:  # noqa: BLE001 - its kind is compared
            return {"error": type(error).__name__}
        return {}

    async def note(self, kind: str, outcome: dict[str, Any]) -> bool:
        """Write down a turn, with the state and the history after it."""
        entry: dict[str, Any] = {"given": kind, "outcome": outcome, "state": {}}
        entry["ran"] = self.built.calls.total() - self.called
        entry["beside"] = beside(self.built)
        self.trace.append(entry)
        try:
            self.state = await self.graph.aget_state(PLACE)
        except Exception as error:  # noqa: BLE001 - its kind is compared
            entry["state"] = {"error": type(error).__name__}
            return False
        entry["state"] = shown(self.state)
        try:
            entry["history"] = [shown(s) async for s in self.graph.aget_state_history(PLACE)]
        except Exception as error:  # noqa: BLE001 - its kind is compared
            entry["history"] = [{"error": type(error).__name__}]
            return False
        return True


def beside(built: Built) -> bool:
    """Whether a nested superstep so far had a Command for the graph above, and another task.

    The other one may be a graph, which may have run before or after it.
    """
    return any(
        "parent" in forms.values() and (len(forms) > 1 or namespace in built.below)
        for (namespace, _), forms in built.supersteps.items()
    )


def shown(state: Any) -> dict[str, Any]:
    """A snapshot without its ids and times."""
    metadata = state.metadata or {}
    return {
        "values": plain(state.values),
        "next": list(state.next),
        "source": metadata.get("source"),
        "step": metadata.get("step"),
        "tasks": [
            [t.name, t.path[0], bool(t.error), [i.value for i in t.interrupts], plain(t.result)]
            for t in state.tasks
        ],
        "interrupts": [i.value for i in state.interrupts],
    }


def plain(value: Any) -> Any:
    """Data without objects of either library."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "content"):
        return shown_message(value)
    return (
        value
        if isinstance(value, str | int | float | bool | None)
        else getattr(value, "value", str(value))
    )
