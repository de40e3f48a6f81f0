"""Small graphs with a subgraph, for tests of nested runs."""

from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph import interrupt
from tests.support.graphs import at, in_a_row


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]
    n: int


def says(name: str, seen: list[str]):
    async def node(state: Log) -> dict[str, Any]:
        seen.append(name)
        return {"log": [name]}

    return node


def asks(name: str, seen: list[str], *questions: str):
    async def node(state: Log) -> dict[str, Any]:
        seen.append(name)
        return {"log": [f"{name}:{'+'.join(interrupt(q) for q in questions)}"]}

    return node


def child(seen: list[str], *questions: str, checkpointer: Any = None):
    """`c1`, then `c2` which asks."""
    nodes = {"c1": says("c1", seen), "c2": asks("c2", seen, *questions)}
    return in_a_row(nodes, schema=Log, checkpointer=checkpointer)


def parent(seen: list[str], inner: Any, saver: Any, **options: Any):
    nodes = {"before": says("before", seen), "child": inner, "after": says("after", seen)}
    return in_a_row(nodes, schema=Log, checkpointer=saver, **options)


def asked(result: dict[str, Any]) -> list[Any]:
    return [question.value for question in result["__interrupt__"]]


async def namespaces(saver: Any) -> set[str]:
    found = [row.config["configurable"]["checkpoint_ns"] async for row in saver.alist(at())]
    return {namespace.split(":")[0] for namespace in found}
