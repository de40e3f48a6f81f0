"""`abatch` and `batch`: one run for each of several inputs."""

import anyio
import pytest

from actorgraph import (
    Command,
    GraphOutput,
    InMemorySaver,
    InvalidConfigError,
    get_config,
    interrupt,
)
from tests.support.gates import PATIENCE_S, Turnstile, patient_group, settled
from tests.support.graphs import at, in_a_row


def echo(log=None):
    async def node(state):
        if state["foo"] == "bad":
            raise ValueError("bad input")
        if log is not None:
            log.append(get_config().get("tags"))
        return {"foo": state["foo"] * 2}

    return in_a_row({"node": node})


def inputs(text):
    return [{"foo": letter} for letter in text]


@pytest.mark.langgraph("F-C23")
async def test_results_are_in_the_order_of_the_inputs():
    """
    One result for each input, whichever run ends first.
    """
    results = await echo().abatch(inputs("abc"))

    assert [r["foo"] for r in results] == ["aa", "bb", "cc"]
    assert await echo().abatch([]) == []


@pytest.mark.langgraph("F-C23")
async def test_each_run_may_have_its_own_config():
    """
    A list of configs is given out one by one, a single one to all.
    """
    log: list = []
    graph = echo(log)
    await graph.abatch(inputs("ab"), [{"tags": ["1"]}, {"tags": ["2"]}])
    await graph.abatch(inputs("ab"), {"tags": ["all"]})

    assert sorted(log[:2]) == [["1"], ["2"]]
    assert log[2:] == [["all"], ["all"]]
    with pytest.raises(InvalidConfigError, match="same length"):
        await graph.abatch(inputs("ab"), [{}])


@pytest.mark.langgraph("F-C23")
async def test_the_first_failure_ends_the_others():
    """
    It is raised as it is, not in a group.
    """

    async def node(state):
        if state["foo"] == "bad":
            raise ValueError("bad input")
        await anyio.sleep_forever()

    graph = in_a_row({"node": node})
    with anyio.fail_after(PATIENCE_S), pytest.raises(ValueError, match="bad input"):
        await graph.abatch([{"foo": "a"}, {"foo": "bad"}])


@pytest.mark.langgraph("F-C23")
async def test_failures_may_be_results():
    """
    With `return_exceptions` a run that fails has its exception in its place.
    """
    given = [{"foo": "a"}, {"foo": "bad"}, {"foo": "c"}]
    first, second, third = await echo().abatch(given, return_exceptions=True)

    assert (first["foo"], third["foo"]) == ("aa", "cc")
    assert isinstance(second, ValueError)


async def test_bad_arguments_are_refused_before_anything_runs():
    """
    One input's wrong config keeps the others from running too.
    """
    log: list = []
    with pytest.raises(InvalidConfigError):
        await echo(log).abatch(inputs("ab"), [{}, {"recursion_limit": 0}])

    assert log == []


@pytest.mark.langgraph("F-C16", "F-C23")
@pytest.mark.parametrize("bound", [False, True])
async def test_a_limit_holds_for_the_whole_batch(bound):
    """
    `max_concurrency` bounds the runs that go on at once.
    """
    node = Turnstile({"foo": "done"})
    graph, config = in_a_row({"node": node}), {"max_concurrency": 2}
    if bound:
        graph, config = graph.with_config(config), None
    async with patient_group() as group:
        group.start_soon(graph.abatch, inputs("abcde"), config)
        await settled()
        at_once = node.calls
        node.out.set()

    assert (at_once, node.calls) == (2, 5)


@pytest.mark.langgraph("F-C23")
async def test_each_run_is_of_the_version_asked_for():
    """
    Options of `ainvoke` hold for every run.
    """
    results = await echo().abatch(inputs("ab"), version="v2", output_keys="foo")

    assert results == [GraphOutput("aa"), GraphOutput("bb")]
    streams = await echo().abatch(inputs("ab"), stream_mode="updates")
    assert streams == [[{"node": {"foo": "aa"}}], [{"node": {"foo": "bb"}}]]


async def test_in_a_node_every_run_may_ask():
    """
    A batch of graphs in a node asks all its questions at once; each answer reaches its run, which
    follows from the order of the inputs.
    """

    async def asks(state):
        return {"foo": f"{state['foo']}:{interrupt(state['foo'])}"}

    child = in_a_row({"asks": asks})

    async def node(state):
        made = await child.abatch(inputs("abc"))
        return {"bar": [one["foo"] for one in made]}

    graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
    paused = await graph.ainvoke({}, at())
    answers = {i.id: i.value.upper() for i in paused["__interrupt__"]}
    done = await graph.ainvoke(Command(resume=answers), at())

    assert sorted(i.value for i in paused["__interrupt__"]) == ["a", "b", "c"]
    assert done["bar"] == ["a:A", "b:B", "c:C"]


@pytest.mark.langgraph("F-C22", "F-C23")
def test_the_blocking_batch_does_the_same():
    """
    `batch` is `abatch` for code without an event loop.
    """
    results = echo().batch(inputs("ab"))

    assert [r["foo"] for r in results] == ["aa", "bb"]
