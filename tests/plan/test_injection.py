"""Which parameters of a callable the runtime fills in."""

from functools import partial
from typing import Any, Optional

import pytest

from actorgraph import START, StateGraph
from actorgraph.plan.callables import injected, needs_store
from tests.support.graphs import AB


class BaseStore:
    """A name that annotations use."""


def all_of_them(state, *, config, error, previous, runtime, store, writer): ...
def none_of_them(state, more=1): ...
def own_config(state, config: int = 3): ...
def own_config_needed(state, config: int): ...
def default_writer(state, writer: "StreamWriter" = None): ...  # noqa: F821
def own_error(state, error: str = ""): ...
def catch_all(state, **runtime): ...
def the_first(runtime, config): ...
async def awaited(state, config: dict[str, Any] | None = None): ...


class Calls:
    def __call__(self, state, runtime): ...

    def method(self, state, store: BaseStore): ...


@pytest.mark.langgraph("F-A6")
@pytest.mark.parametrize(
    ("action", "names"),
    [
        (all_of_them, ("config", "error", "previous", "runtime", "store", "writer")),
        (none_of_them, ()),
        (own_config, ()),
        (own_config_needed, ("config",)),
        (default_writer, ("writer",)),
        (own_error, ()),
        (catch_all, ()),
        (the_first, ("config",)),
        (awaited, ("config",)),
        (Calls(), ("runtime",)),
        (Calls().method, ("store",)),
        (partial(all_of_them, store=1, writer=2), ("config", "error", "previous", "runtime")),
        (partial(lambda x, state, runtime: None, 1), ("runtime",)),
        (print, ()),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_parameters_are_filled_by_name_and_annotation(action, names):
    """
    A declared name is filled in unless it has a default and an annotation of the program's own.
    """
    assert injected(action) == names


@pytest.mark.langgraph("F-A6")
@pytest.mark.parametrize(
    ("annotation", "needed"),
    [
        (BaseStore, True),
        ("BaseStore", True),
        (Optional[BaseStore], False),  # noqa: UP045 - both forms
        (BaseStore | None, False),
        ("BaseStore | None", False),
        ("Optional[BaseStore]", False),
    ],
)
def test_a_store_is_needed_unless_its_parameter_is_optional(annotation, needed):
    """
    Without a store only `store: BaseStore | None`, or a default, can be filled in.
    """

    def node(state, store): ...

    def with_default(state, store=None): ...

    node.__annotations__["store"] = with_default.__annotations__["store"] = annotation

    assert needs_store(node) is needed
    assert needs_store(with_default) is False
    assert needs_store(partial(node, store=None)) is False


def test_a_plan_names_the_first_node_that_needs_a_store():
    """
    Also when one of the node's conditional edges needs it.
    """

    def route(state, store): ...

    def node(state): ...

    def builder():
        nodes = StateGraph(AB).add_node("a", node).add_node("b", node)
        return nodes.add_edge(START, "a").add_edge("a", "b")

    assert builder().compile().plan.needs_store == ""
    routed = builder().add_conditional_edges("b", route, ["a"])
    assert routed.compile().plan.needs_store == "b"
