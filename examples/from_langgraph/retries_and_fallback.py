"""Branches with retries: a flaky source is tried again, a dead one is replaced.

`RetryPolicy` repeats what may heal by itself; what can't is caught in the node and routed to a
fallback. A failure that nothing handles stops the run, and the thread goes on where it stopped.
"""

import json
from collections import Counter
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import anyio

from actorgraph import END, START, Command, InMemorySaver, RetryPolicy, StateGraph

CALLS: Counter[str] = Counter()


class State(TypedDict, total=False):
    """Prices from several sources."""

    prices: Annotated[list[tuple[str, int]], add]
    report: str


def quote(source: str, failures: int, error: type[Exception], price: int) -> tuple[str, int]:
    """A price, after so many failures."""
    CALLS[source] += 1
    if CALLS[source] <= failures:
        raise error(source)
    return source, price


async def flaky(state: State) -> dict[str, Any]:
    """Two failures, then a price."""
    return {"prices": [quote("flaky", 2, ConnectionError, 11)]}


async def dead(state: State) -> Command[Literal["fallback", "report"]]:
    """Never answers; the fallback does."""
    try:
        return Command(goto="report", update={"prices": [quote("dead", 99, LookupError, 0)]})
    except LookupError:
        return Command(goto="fallback")


async def fallback(state: State) -> dict[str, Any]:
    """Yesterday's price."""
    return {"prices": [("yesterday", 9)]}


async def report(state: State) -> dict[str, Any]:
    """Fails at its first call, and nothing handles that."""
    best = min(state["prices"], key=lambda pair: pair[1])
    quote("report", 1, RuntimeError, 0)
    return {"report": f"{best[0]} at {best[1]}"}


def ask_whom(state: State) -> list[str]:
    """Both sources at once."""
    return ["flaky", "dead"]


retries = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ConnectionError)
builder = StateGraph(State)
builder.add_node("flaky", flaky, retry_policy=retries)
builder.add_node("dead", dead)
builder.add_node("fallback", fallback)
builder.add_node("report", report, defer=True)
builder.add_conditional_edges(START, ask_whom, ["flaky", "dead"])
builder.add_edge("flaky", "report")
builder.add_edge("fallback", "report")
builder.add_edge("report", END)
graph = builder.compile(checkpointer=InMemorySaver())


async def main() -> Any:
    """One run that fails at its last node, and one that goes on from there."""
    CALLS.clear()
    config = {"configurable": {"thread_id": "prices"}}
    failed = ""
    try:
        await graph.ainvoke({}, config)
    except RuntimeError as error:
        failed = str(error)
    stopped = (await graph.aget_state(config)).next
    final = await graph.ainvoke(None, config)
    return {"failed": failed, "stopped at": stopped, "calls": dict(sorted(CALLS.items())), **final}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
