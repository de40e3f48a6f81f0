"""Runs a spec's turns against a built graph and writes down what can be seen.

A turn is `["input", n]`; `["next", which]`: answer all waiting questions, the first or the last of
them, or go on where none waits; `["go"]`: go on without an answer; `["update", node]`;
`["replay", k]`: go on from the k-th newest checkpoint that has tasks. A turn that has nothing to do
is left out.
"""

import json
from typing import Any

from tests.differential.builder import Built
from tests.differential.rules import Spec, Trace

PLACE = {"configurable": {"thread_id": "t"}}


async def drive(library: Any, built: Built, spec: Spec) -> Trace:
    """The trace: one entry per turn."""
    driver = Driver(library, built.graph, spec)
    async with built.saver:
        for turn in spec["turns"]:
            if not await driver.take(turn):
                break
    if driver.trace:
        driver.trace[-1]["calls"] = dict(sorted(built.calls.items()))
    return json.loads(json.dumps(driver.trace))


class Driver:
    """One thread of one graph."""

    def __init__(self, library: Any, graph: Any, spec: Spec) -> None:
        self.library, self.graph, self.spec = library, graph, spec
        self.trace: Trace = []
        self.state: Any = None

    async def take(self, turn: list[Any]) -> bool:
        """Do one turn; whether the thread can take another one."""
        kind = turn[0]
        config = {**PLACE, "recursion_limit": self.spec["limit"]}
        if kind == "input":
            given: Any = {"n": turn[1], "log": [f"in{turn[1]}"]}
        elif kind == "replay":
            points = [s async for s in self.graph.aget_state_history(PLACE) if s.next]
            if not points:
                return True
            given, point = None, points[turn[1] % len(points)]
            config |= {"configurable": point.config["configurable"]}
            kind = "replay head" if point.config == self.state.config else kind
        elif kind == "update":
            if any(t.name == turn[1] and t.result is not None for t in self.state.tasks):
                return True  # LangGraph would mix the writes of the task and of the update
            outcome = await self.update(turn[1])
            return await self.note(kind, outcome)
        elif not self.state.next:
            return True
        else:
            given = self.answer(turn[1]) if kind == "next" else None
            by_id = isinstance(getattr(given, "resume", None), dict)
            kind = "go" if given is None else "answer by id" if by_id else "answer"
        return await self.note(kind, await self.run(given, config))

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
        self.trace.append(entry)
        try:
            self.state = await self.graph.aget_state(PLACE)
        except Exception as error:  # noqa: BLE001 - its kind is compared
            entry["state"] = {"error": type(error).__name__}
            return False
        entry["state"] = shown(self.state)
        entry["history"] = [shown(s) async for s in self.graph.aget_state_history(PLACE)]
        return True


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
    return (
        value
        if isinstance(value, str | int | float | bool | None)
        else getattr(value, "value", str(value))
    )
