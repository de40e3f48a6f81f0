"""Suggestions for names that don't exist."""

import inspect
from typing import Any

import pytest

from actorgraph import START, ActorSystem, InMemorySaver, MessagesState, StateGraph
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.options import CALL_NAMES, HOMES
from actorgraph.api.system.run_arguments import StartOptions
from actorgraph.errors import InvalidConfigError, did_you_mean


def test_a_longer_name_is_nearer_than_a_similar_one():
    """
    A name that lacks its unit is completed.
    """
    assert did_you_mean("delay", ["replay", "delay_s"]) == "did you mean 'delay_s'?"


def test_the_name_of_the_input_is_not_suggested():
    """
    `__start__` is neither among the choices nor similar to anything.
    """
    assert did_you_mean("x", ["__start__", "a"]) == "the choices are 'a'"
    assert did_you_mean("_start_", ["__start__"]) == "no name of that kind is defined"


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("delay", ["replay"]),
        ("xray", ["replay"]),
        ("graph", ["subgraphs"]),
        ("source", ["stores"]),
        ("reason", ["version"]),
        ("a", ["b"]),
    ],
)
def test_another_word_is_not_suggested(name, choices):
    """
    A name that shares some letters with another one may mean anything else.
    """
    assert did_you_mean(name, choices) == f"the choices are {choices[0]!r}"


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("strem_mode", "stream_mode"),
        ("stream_mdoe", "stream_mode"),
        ("interupt_befor", "interrupt_before"),
        ("txet", "text"),
        ("Text", "text"),
        ("reserch", "research"),
    ],
)
def test_slips_of_the_keyboard_are_seen(name, choice):
    """
    One slip for each four characters is taken for one; swapped characters are one.
    """
    assert did_you_mean(name, [choice, "other"]) == f"did you mean {choice!r}?"


PUBLIC = (StateGraph, CompiledStateGraph, ActorSystem)
CALLS = ("invoke", "ainvoke", "stream", "astream", "batch", "abatch", "map_threads", "amap_threads")


def made() -> Any:
    builder = StateGraph(MessagesState).add_node("a", lambda s: s).add_edge(START, "a")
    return builder.compile(InMemorySaver())


MEANT = {("answers", "answer")}
"""Names of arguments for which another method's is suggested, and rightly."""


def _arguments() -> set[str]:
    """Every argument of a public method of graphs and systems, without positional ones."""
    methods = (m for kind in PUBLIC for n, m in inspect.getmembers(kind, callable) if n[0] != "_")
    found = (inspect.signature(method).parameters.values() for method in methods)
    return {each.name for some in found for each in some if each.kind is each.KEYWORD_ONLY}


def test_no_argument_of_one_method_is_taken_for_one_of_another():
    """
    A call with an argument that only other methods have names the home of it, or the choices; it
    suggests none of a different meaning.
    """
    graph = made()
    misled: list[tuple[str, str, str]] = []
    tried = 0
    for method in CALLS:
        for name in sorted(_arguments() | {"delay", "timeout", "retries"}):
            call = getattr(graph, method, None)
            if call is None or name in inspect.signature(call).parameters:
                continue
            do = _advice(call, name)
            if do is not None:
                tried += 1
                if "did you mean" in do and not _is_meant(name, do):
                    misled.append((method, name, do))
    assert tried > 100
    assert misled == []


def _is_meant(name: str, do: str) -> bool:
    meant = do.partition("did you mean '")[2].partition("'")[0]
    return meant.startswith(f"{name}_") or (name, meant) in MEANT


def _advice(call: Any, name: str) -> str | None:
    """The advice of a call with one unknown argument; None if it has the argument."""
    try:
        made = call([], **{name: None})
        made = made.close() if inspect.iscoroutine(made) else made
    except InvalidConfigError as error:
        return error.do if "has no argument" in error.what else None
    except Exception:  # noqa: BLE001 - another fault of this call
        return None
    return None


@pytest.mark.parametrize(
    ("name", "do"),
    [
        ("delay_s", "ActorSystem.start() has it"),
        ("checkpointer", "compile() has it"),
        ("delay", "the choices are "),
        ("deadline", "did you mean 'deadline_s'?"),
    ],
)
@pytest.mark.parametrize("method", ["ainvoke", "batch", "amap_threads"])
async def test_advice_for_an_argument(method, name, do):
    """
    An argument that belongs elsewhere is sent there.
    """
    graph = made()

    async def call() -> None:
        found = getattr(graph, method)([{}], **{name: 1})
        if inspect.isawaitable(found):
            await found

    with pytest.raises(InvalidConfigError, match=f"has no argument '{name}'") as refused:
        await call()
    assert refused.value.do.startswith(do)


def test_the_homes_of_arguments():
    """
    Each argument that is sent elsewhere exists there, and calls lack it.
    """
    start = {*StartOptions.__annotations__, *inspect.signature(ActorSystem.start).parameters}
    assert set(HOMES["compile()"]) <= inspect.signature(StateGraph.compile).parameters.keys()
    assert set(HOMES["ActorSystem.start()"]) <= start
    assert not {name for names in HOMES.values() for name in names} & CALL_NAMES
