"""Nodes of two forms: which one a blocking call runs."""

from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda, RunnableParallel

from actorgraph import END, START, StateGraph
from actorgraph.plan.forms import blocking_plan, has_sync_form


class State(TypedDict, total=False):
    said: str


class TwoForms:
    """An object that says which of its methods was called."""

    name = "two"

    def invoke(self, given: Any, config: Any = None) -> Any:
        return {"said": "invoke"}

    async def ainvoke(self, given: Any, config: Any = None) -> Any:
        return {"said": "ainvoke"}


async def only_async(state: State) -> State:
    return {"said": "async"}


def graph_of(*nodes: Any, **options: Any) -> Any:
    builder = StateGraph(State)
    names = [f"n{number}" for number in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        builder.add_node(name, node, **options)
    for one, two in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(one, two)
    return builder.compile()


class TestPlan:
    def test_a_node_of_two_forms_is_plain_in_a_blocking_call(self):
        """
        The plan of awaited calls has `ainvoke`, that of blocking calls `invoke`.
        """
        plan = graph_of(TwoForms()).plan

        made = blocking_plan(plan)

        assert (plan.nodes["n0"].is_async, plan.plain) == (True, False)
        assert (made.nodes["n0"].is_async, made.plain) == (False, True)

    def test_a_graph_without_such_nodes_has_one_plan(self):
        """
        Functions stay: a graph of functions has the same plan for both kinds of calls.
        """
        plan = graph_of(only_async, lambda state: {"said": "plain"}).plan

        assert blocking_plan(plan) is plan

    def test_a_node_with_a_time_limit_stays_async(self):
        """
        A plain function can't be stopped, so the limit keeps the form that it can stop.
        """
        plan = graph_of(TwoForms(), timeout=5).plan

        assert blocking_plan(plan) is plan

    def test_a_router_of_two_forms_is_plain_too(self):
        """
        A conditional edge whose path is a Runnable runs its sync function.
        """
        builder = StateGraph(State).add_node("n0", TwoForms()).add_edge(START, "n0")
        path = RunnableLambda(lambda state: END)
        builder.add_conditional_edges("n0", path, [END])
        plan = builder.compile().plan

        (branch,) = blocking_plan(plan).nodes["n0"].branches

        assert plan.nodes["n0"].branches[0].is_async
        assert not branch.is_async

    def test_a_subgraph_s_nodes_are_plain_too(self):
        """
        A graph over a graph of such nodes is plain in a blocking call.
        """
        made = blocking_plan(graph_of(graph_of(TwoForms())).plan)

        assert made.plain


class TestSyncForm:
    @pytest.mark.parametrize(
        ("owner", "expected"),
        [
            (RunnableLambda(lambda x: x), True),
            (RunnableLambda(only_async), False),
            (RunnableLambda(lambda x: x) | RunnableLambda(only_async), False),
            (RunnableLambda(lambda x: x) | RunnableLambda(lambda x: x), True),
            (RunnableParallel(a=RunnableLambda(only_async)), False),
            (RunnableLambda(only_async).bind(x=1), False),
            (TwoForms(), True),
            (object(), False),
        ],
        ids=lambda value: value if isinstance(value, bool) else type(value).__name__,
    )
    def test_an_object_made_of_an_async_function_has_none(self, owner, expected):
        """
        LangChain's objects over an async function alone have an `invoke` that only raises.
        """
        assert has_sync_form(owner) is expected


class TestCalls:
    def test_a_blocking_call_runs_invoke(self):
        """
        `invoke`, `stream` and `batch` run the sync form.
        """
        graph = graph_of(TwoForms())

        assert graph.invoke({}) == {"said": "invoke"}
        assert list(graph.stream({})) == [{"n0": {"said": "invoke"}}]
        assert graph.batch([{}]) == [{"said": "invoke"}]

    async def test_an_awaited_call_runs_ainvoke(self):
        """
        `ainvoke` and `astream` run the async form.
        """
        graph = graph_of(TwoForms())

        assert await graph.ainvoke({}) == {"said": "ainvoke"}
        assert [chunk async for chunk in graph.astream({})] == [{"n0": {"said": "ainvoke"}}]

    def test_a_node_of_an_async_function_alone_runs_in_a_blocking_call(self):
        """
        Its `invoke` would raise; the graph calls `ainvoke` in the background instead.
        """
        assert graph_of(RunnableLambda(only_async)).invoke({}) == {"said": "async"}

    def test_a_graph_that_was_changed_is_seen(self):
        """
        An attribute that is assigned after a blocking call counts in the next one.
        """
        graph = graph_of(TwoForms(), lambda state: {})
        graph.invoke({})
        graph.step_timeout = "soon"

        with pytest.raises(ValueError, match="step_timeout"):
            graph.invoke({})

    def test_the_second_plan_is_made_once(self):
        """
        Two blocking calls run the same graph object.
        """
        graph = graph_of(TwoForms())

        assert graph.blocking_form() is graph.blocking_form()
        assert graph.blocking_form() is not graph
        assert graph_of(only_async).blocking_form().plan.plain is False
