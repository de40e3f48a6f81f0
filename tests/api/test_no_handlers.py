"""Objects in `config["callbacks"]` that no event would reach."""

import pytest

from actorgraph import START, InvalidConfigError, StateGraph
from actorgraph.graph import GraphCallbackHandler

CALLS = {
    "invoke": lambda graph, config: graph.invoke({}, config),
    "stream": lambda graph, config: list(graph.stream({}, config)),
    "with_config": lambda graph, config: graph.with_config(config).invoke({}),
}


class Looks:
    """Has a handler's methods, and is of none of its classes."""

    def on_chain_start(self, *_, **__):
        """Never called."""


@pytest.fixture
def graph():
    graph = StateGraph(dict).add_node("a", lambda _: {"x": 1}).add_edge(START, "a")
    return graph.compile()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("given", [[Looks()], Looks(), [print], {"a": 1}, [Looks], "handler"])
def test_they_are_refused(graph, given, call):
    """
    An object that no event would reach is refused before the run, in a list or alone.
    """
    with pytest.raises(InvalidConfigError, match=r'config\["callbacks"\] has'):
        CALLS[call](graph, {"callbacks": given})


@pytest.mark.parametrize("given", [None, [], (), [GraphCallbackHandler()]])
def test_handlers_are_taken(graph, given):
    """
    Handlers of graphs, and no handlers, are a run's callbacks.
    """
    assert graph.invoke({}, {"callbacks": given}) == {"x": 1}


def test_langchains_are_taken(graph):
    """
    Handlers and managers of LangChain's are a run's callbacks.
    """
    core = pytest.importorskip("langchain_core.callbacks", reason="needs langchain-core")
    handler = core.BaseCallbackHandler()

    for given in ([handler], core.CallbackManager([handler]), core.AsyncCallbackManager([])):
        assert graph.invoke({}, {"callbacks": given}) == {"x": 1}
