"""Context variables that a handler sets when a run begins: its nodes see them, not its caller."""

from contextlib import nullcontext
from contextvars import ContextVar, Token
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from typing_extensions import TypedDict

from actorgraph import END, START, StateGraph
from actorgraph.functional import entrypoint, task

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
USER: ContextVar[str] = ContextVar("user", default="nobody")


class State(TypedDict, total=False):
    seen: str
    routed: str


class Setting(BaseCallbackHandler):
    """Sets the variable when a run begins."""

    run_inline = True
    raise_error = True

    def __init__(self) -> None:
        self.tokens: dict[Any, Token[str]] = {}

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **more):
        if parent_run_id is None:
            self.tokens[run_id] = USER.set("ann")


class Apart(Setting):
    """Its methods may be called in other threads, as those of most handlers."""

    run_inline = False


class Resetting(Setting):
    """And takes it back when the run has ended. LangChain ends async runs in another context."""

    def on_chain_end(self, outputs, *, run_id, **more):
        if run_id in self.tokens:
            USER.reset(self.tokens.pop(run_id))

    def on_chain_error(self, error, *, run_id, **more):
        self.on_chain_end(None, run_id=run_id)


class SettingLater(AsyncCallbackHandler):
    run_inline = True

    async def on_chain_start(self, serialized, inputs, *, parent_run_id=None, **more):
        if parent_run_id is None:
            USER.set("ann")


class OfNodes(BaseCallbackHandler):
    """Sets the variable when a node begins."""

    run_inline = True

    def on_chain_start(self, serialized, inputs, *, parent_run_id=None, **more):
        if parent_run_id is not None:
            USER.set(f"{USER.get()} in {more['name']}")


def plain() -> Any:
    def node(state: State):
        return {"seen": USER.get()}

    def route(state: State):
        return "last" if USER.get() == "ann" else END

    def last(state: State):
        return {"routed": USER.get()}

    return _graph(node, route, last)


def waiting() -> Any:
    async def node(state: State):
        return {"seen": USER.get()}

    async def route(state: State):
        return "last" if USER.get() == "ann" else END

    async def last(state: State):
        return {"routed": USER.get()}

    return _graph(node, route, last)


def _graph(node: Any, route: Any, last: Any) -> Any:
    builder = StateGraph(State).add_node("node", node).add_node("last", last)
    builder.add_edge(START, "node").add_conditional_edges("node", route, ["last", END])
    return builder.compile()


def below(graph: Any) -> Any:
    return StateGraph(State).add_node("below", graph).add_edge(START, "below").compile()


SEEN = {"seen": "ann", "routed": "ann"}
GRAPHS = {
    "plain": plain,
    "waiting": waiting,
    "a subgraph": lambda: below(waiting()),
    "a plain subgraph": lambda: below(plain()),
}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
class TestNodes:
    async def test_nodes_and_routers_see_the_handlers_variable(self, make):
        """
        A variable that a handler sets when the run begins is set in nodes, routers and subgraphs.
        """
        assert await make().ainvoke({}, {"callbacks": [Setting()]}) == SEEN

    def test_a_blocking_call_and_its_stream_show_it_too(self, make):
        """
        The same in blocking calls, whatever thread the handler is called in.
        """
        config = {"callbacks": [Apart()]}

        assert make().invoke({}, config) == SEEN
        chunks = list(make().stream({}, config, stream_mode="values"))

        assert chunks[-1] == SEEN
        assert USER.get() == "nobody"

    async def test_a_stream_shows_it_too(self, make):
        """
        The run of a stream is in a task of its own, and sees the handler's variable all the same.
        """
        stream = make().astream({}, {"callbacks": [Setting()]}, stream_mode="values")
        chunks = [chunk async for chunk in stream]

        assert chunks[-1] == SEEN
        assert USER.get() == "nobody"


class TestHandlers:
    @only_asyncio
    async def test_an_async_handler_reaches_nodes_too(self):
        """
        A handler with async methods is awaited in the run's context.
        """
        assert await waiting().ainvoke({}, {"callbacks": [SettingLater()]}) == SEEN

    async def test_a_nodes_variable_stays_in_the_node(self):
        """
        A variable that a handler sets when a node begins is set in that node, not in the next one.
        """
        handler = OfNodes()

        def route(state: State):
            return "last"

        def node(state: State):
            return {"seen": USER.get()}

        def last(state: State):
            return {"routed": USER.get()}

        result = await _graph(node, route, last).ainvoke({}, {"callbacks": [handler]})

        assert result == {"seen": "nobody in node", "routed": "nobody in last"}

    @pytest.mark.parametrize("kind", ["plain", "waiting"])
    @pytest.mark.parametrize("ending", [None, KeyError("x")])
    def test_a_handler_can_take_its_variable_back(self, ending, kind):
        """
        The end, and a failure, are reported in the context of the beginning.
        """
        handler = Resetting()

        def node(state: State):
            if ending:
                raise ending
            return {"seen": USER.get()}

        async def waiting_node(state: State):
            return node(state)

        function = node if kind == "plain" else waiting_node
        graph = StateGraph(State).add_node("node", function).add_edge(START, "node").compile()

        with pytest.raises(KeyError) if ending else nullcontext():
            assert graph.invoke({}, {"callbacks": [handler]}) == {"seen": "ann"}
        assert handler.tokens == {}

    async def test_tasks_of_the_functional_api_see_it(self):
        """
        An entrypoint and the tasks that it calls see the variable.
        """

        @task
        async def user() -> str:
            return USER.get()

        @entrypoint()
        async def flow(given: str) -> list[str]:
            return [USER.get(), await user()]

        assert await flow.ainvoke("", {"callbacks": [Setting()]}) == ["ann", "ann"]
