"""The methods of a saver, called as LangGraph's loop calls them; prints what they return.

python [-m actorgraph.compat -m] tests.ecosystem.savers.contract SAVER FOLDER
"""

import asyncio
import datetime as dt
import json
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import create_checkpoint, empty_checkpoint
from langgraph.types import Interrupt, Send

from tests.ecosystem.normal import normal
from tests.ecosystem.savers.places import opened

VALUES: dict[str, Any] = {
    "text": "tea",
    "number": 1.5,
    "none": None,
    "plain": {"a": [1, True, None], "b": {"c": "d"}},
    "bytes": b"\x00\xff",
    "time": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    "set": {1, 2},
    "messages": [HumanMessage("hi", id="1"), AIMessage("there", id="2")],
    "sends": [Send("n", {"x": 1})],
}
WRITES: list[tuple[str, Any]] = [("text", "cup"), ("messages", AIMessage("more", id="3"))]


def show(way: str, item: Any) -> None:
    """Print a line."""
    print(json.dumps({"way": way, "turn": 0, "item": normal(item)}), flush=True)


def config(thread: str, namespace: str = "", checkpoint: str | None = None) -> Any:
    """The config that addresses a checkpoint."""
    place = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": {**place, **({"checkpoint_id": checkpoint} if checkpoint else {})}}


def shown(found: Any) -> Any:
    """A checkpoint tuple, without its ids and times."""
    if found is None:
        return None
    point = found.checkpoint
    values = dict(sorted(point["channel_values"].items()))
    if "sends" in values:  # shown alike by both libraries
        values["sends"] = [[one.node, one.arg] for one in values["sends"]]
    return {
        "values": values,
        "versions": sorted(point["channel_versions"]),
        "seen": point["versions_seen"].keys(),
        "source": found.metadata.get("source"),
        "step": found.metadata.get("step"),
        "parent": bool(found.parent_config),
        "writes": [[channel, value] for _, channel, value in found.pending_writes or ()],
        "namespace": found.config["configurable"].get("checkpoint_ns"),
    }


def chain(saver: Any, thread: str, namespace: str, length: int) -> list[Any]:
    """Put checkpoints, each the parent of the next; returns their configs."""
    point, place, made, versions = empty_checkpoint(), config(thread, namespace), [], {}
    for step in range(length):
        values = {**VALUES, "text": f"tea {step}"}
        versions = {c: saver.get_next_version(versions.get(c), None) for c in values}
        point = {**create_checkpoint(point, None, step), "channel_values": values}
        point |= {"channel_versions": versions, "versions_seen": {"n": {"text": versions["text"]}}}
        metadata = {"source": "loop" if step else "input", "step": step, "parents": {}}
        place = saver.put(place, point, metadata, versions)
        made.append(place)
    return made


def methods(saver: Any) -> None:
    """Call the methods, and print what they return."""
    show("empty", [shown(saver.get_tuple(config("t"))), list(saver.list(config("t")))])
    made = chain(saver, "t", "", 3)
    chain(saver, "t", "inner:1", 1)
    chain(saver, "other", "", 1)
    saver.put_writes(made[-1], WRITES, "task-1", "path")
    saver.put_writes(made[-1], [("__interrupt__", [Interrupt("sure?", id="i")])], "task-2")
    saver.put_writes(made[-1], [("__resume__", ["yes"])], "task-2")
    show("newest", shown(saver.get_tuple(config("t"))))
    for number, place in enumerate(made):
        show(f"checkpoint {number}", shown(saver.get_tuple(place)))
    show("namespace", shown(saver.get_tuple(config("t", "inner:1"))))
    show("list", [shown(found) for found in saver.list(config("t"))])
    show("limit", [shown(found) for found in saver.list(config("t"), limit=2)])
    show("before", [shown(found) for found in saver.list(config("t"), before=made[2])])
    show("filter", [shown(f) for f in saver.list(config("t"), filter={"source": "input"})])
    saver.delete_thread("t")
    show("deleted", [shown(saver.get_tuple(config("t"))), list(saver.list(config("t")))])
    show("other", shown(saver.get_tuple(config("other"))))


async def conformance(name: str, folder: Path) -> None:
    """Run LangChain's own tests of savers, and print which pass."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate
    from langgraph.checkpoint.conformance.report import ProgressCallbacks

    count = iter(range(1000))

    @checkpointer_test(name=name)
    async def saver() -> AsyncIterator[Any]:
        with opened(name, folder.with_name(f"{folder.name}_{next(count)}")) as made:
            yield made

    def said(capability: str, test: str, passed: bool, error: str | None) -> None:
        del error
        show(f"conformance {capability} {test}", passed)

    await validate(saver, progress=ProgressCallbacks(on_test_result=said))


def main(name: str, folder: Path) -> None:
    """Run both parts."""
    with opened(name, folder) as saver:
        try:
            methods(saver)
        except Exception as error:  # noqa: BLE001 - is compared too
            show("methods: failed", f"{type(error).__name__}: {error}")
    asyncio.run(conformance(name, folder))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], Path(sys.argv[2]))
