"""A pipeline of functions: `@task` runs at once and is remembered, `@entrypoint` ties it together.

After the pause for approval no finished task runs again; `previous` is the last result that the
thread saved.
"""

import json
from collections import Counter
from typing import Any

import anyio

from actorgraph import Command, InMemorySaver, entrypoint, interrupt, task

CALLS: Counter[str] = Counter()
PAGES = {"a": "whales sing", "b": "owls hoot at night", "c": "bees dance"}


@task
async def fetch(name: str) -> str:
    """Get a page."""
    CALLS["fetch"] += 1
    return PAGES[name]


@task
async def measure(text: str) -> int:
    """Count the words."""
    CALLS["measure"] += 1
    return len(text.split())


@entrypoint(checkpointer=InMemorySaver())
async def pipeline(names: list[str], *, previous: Any = None) -> Any:
    """Fetch all at once, measure all at once, ask, add up."""
    CALLS["pipeline"] += 1
    pages = [await future for future in [fetch(name) for name in names]]
    lengths = [await future for future in [measure(page) for page in pages]]
    factor = interrupt({"lengths": lengths, "question": "count how often?"})
    total = sum(lengths) * factor
    return entrypoint.final(value={"total": total, "before": previous}, save=total)


async def main() -> Any:
    """Two calls on one thread, each with a pause."""
    CALLS.clear()
    config = {"configurable": {"thread_id": "words"}}
    found = []
    for names, factor in ((["a", "b"], 10), (["c"], 1)):
        paused = [chunk async for chunk in pipeline.astream(names, config, stream_mode="updates")]
        asked = [i.value for chunk in paused for i in chunk.get("__interrupt__", ())]
        result = await pipeline.ainvoke(Command(resume=factor), config)
        found.append({"asked": asked, "result": result, "calls": dict(sorted(CALLS.items()))})
    return found


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
