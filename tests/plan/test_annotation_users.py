"""Nodes, routers, tasks and entrypoints read annotations in every form, beside unknown names."""

import ast
import functools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict

import msgspec
import pytest
import typing_extensions as te
from langchain_core.runnables import RunnableConfig

from actorgraph import START, Command, Runtime, StateGraph, StreamWriter, entrypoint, task
from actorgraph.codec.known_types import declared
from actorgraph.errors import UnresolvedAnnotationWarning
from actorgraph.plan.callables import (
    command_destinations,
    fillable,
    first_schema,
    injected,
    literal_returns,
    needs_store,
)
from actorgraph.stores import BaseStore
from tests.support.source_files import Place, Source, hold, snippet, sources

Settings = RunnableConfig  # in texts, a type has another name


class Receipt(msgspec.Struct):
    number: int


class State(TypedDict):
    a: int


class Private(TypedDict):
    token: str


def forms_of(name: str, typ: Any) -> list[Any]:
    """Write a type in every form, as an object and as the text of one."""
    alias = te.TypeAliasType("alias", typ)
    return [
        *(typ, Annotated[typ, te.Doc("x")], Annotated[Annotated[typ, 1], 2], alias),
        *(Annotated[alias, "x"], te.TypeAliasType("same", alias), NewType("New", typ)),
        *(name, f"Annotated[{name}, te.Doc('x')]", f"Annotated['{name}', Nowhere]", f"'{name}'"),
    ]


def written(function: Callable[..., Any], **annotations: Any) -> list[Any]:
    """Annotate a function, and return it in all ways in which a function is passed."""
    function.__annotations__ = annotations

    @functools.wraps(function)
    def decorated(*args: Any, **kwargs: Any) -> Any: ...

    class Home:
        method = staticmethod(function)

    return [function, decorated, partial(function), Home().method, Home.method]


UNKNOWN = {"other": "Nowhere", "return": "elsewhere.Nothing[Nowhere] | None"}


class TestNodes:
    @pytest.mark.parametrize("form", forms_of("Private", Private), ids=str)
    def test_the_own_schema_of_a_node(self, form):
        """
        The class of the first parameter is read although others can't be resolved.
        """

        def node(state, other=None): ...

        for action in written(node, state=form, **UNKNOWN):
            assert first_schema(action) is Private

    @pytest.mark.parametrize(
        ("name", "kind", "text"),
        [
            ("config", RunnableConfig, "Settings"),
            ("store", BaseStore, "BaseStore"),
            ("writer", StreamWriter, "StreamWriter"),
            ("runtime", Runtime[Any], "Runtime[Any]"),
        ],
    )
    def test_injected_parameters_with_a_default(self, name, kind, text):
        """
        The type counts, in any form and under any name: it isn't left at its default.
        """
        functions = {
            "config": lambda state, config=None, other=None: None,
            "store": lambda state, store=None, other=None: None,
            "writer": lambda state, writer=None, other=None: None,
            "runtime": lambda state, runtime=None, other=None: None,
        }
        optional = Optional[kind]  # noqa: UP045 - a form of its own
        forms = [*forms_of(text, kind), optional, f"Optional[{text}]", f"{text} | None"]
        for form in forms:
            for action in written(functions[name], **{name: form}, **UNKNOWN):
                assert injected(action) == (name,), form
                assert name in fillable(action)

    def test_a_default_of_a_type_of_the_programs_own_is_left(self):
        """
        An annotation that can be read and means something else injects nothing.
        """

        def node(state, config=None): ...

        for form in (Receipt, "Receipt", Annotated[Receipt, "RunnableConfig"], "Nowhere"):
            for action in written(node, config=form):
                assert injected(action) == ()

    @pytest.mark.parametrize(
        ("form", "needed"),
        [
            *((form, True) for form in forms_of("BaseStore", BaseStore)),
            *((form, False) for form in forms_of("BaseStore | None", BaseStore | None)),
            ("Nowhere | None", False),
        ],
        ids=str,
    )
    def test_a_store_is_needed_unless_none_fits(self, form, needed):
        """
        None fits an Optional inside any other form too.
        """

        def node(state, store): ...

        for action in written(node, store=form):
            assert needs_store(action) is needed

    async def test_a_state_of_type_checkers_only_is_found_by_its_name(self):
        """
        A name that doesn't exist at run time is that of the graph's schema with that name.
        """

        class Hidden(TypedDict):
            token: str

        def login(state) -> None:
            return {"token": "t-1"}

        def use(state) -> None:
            return {"a": len(state["token"])}

        login.__annotations__ = {"state": "schemas.State"}
        use.__annotations__ = {"state": "Hidden"}
        builder = StateGraph(State).add_node("login", login, input_schema=Hidden)
        graph = builder.add_node(use).add_edge(START, "login").add_edge("login", "use").compile()

        assert await graph.ainvoke({"a": 0}) == {"a": 3}

    @pytest.mark.parametrize(
        "form",
        [
            *("Gone", "Optional['Gone']", "Annotated['Gone', 1]", "te.Required[Gone]", "Gone[int]"),
            *("State | Gone", "Gone | State | None", "Annotated[State | Gone, 1]", "Gone | Lost"),
            *("Optional[State | Gone]", "Literal['a'] | Gone", "State | 'Gone'"),
        ],
    )
    async def test_a_member_that_is_unknown_is_warned_about(self, form):
        """
        Of a state in any form, or of a union's members, one name that can't be resolved is enough
        for the warning, for nodes and routers; both get the graph's state.
        """
        seen: list[Any] = []

        def node(state) -> None:
            seen.append(dict(state))

        def router(state) -> str:
            seen.append(dict(state))
            return "__end__"

        node.__annotations__["state"] = router.__annotations__["state"] = form
        builder = StateGraph(State).add_edge(START, "node")
        with pytest.warns(UnresolvedAnnotationWarning, match="node 'node' takes .*Gone"):
            builder.add_node(node)
        with pytest.warns(UnresolvedAnnotationWarning, match="router 'router' .*Gone"):
            builder.add_conditional_edges("node", router)

        await builder.compile().ainvoke({"a": 1})

        assert seen == [{"a": 1}] * 2

    @pytest.mark.parametrize(
        "form", ["State | Private", "State | schemas.State", "State | None", "list[Gone]"]
    )
    def test_a_known_union_passes(self, form):
        """
        A union of schemas that all exist, which gets the graph's state, is silent.
        """

        def node(state) -> None: ...

        node.__annotations__["state"] = form
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            StateGraph(State).add_node(node)

    def test_any_other_unknown_state_is_warned_about(self):
        """
        A warning names the node, the name, and says what to do; a text that isn't a name passes.
        """

        def node(state): ...

        node.__annotations__ = {"state": "orders.Order"}
        with pytest.warns(
            UnresolvedAnnotationWarning, match=r"'node' takes .* orders\.Order"
        ) as told:
            StateGraph(State).add_node(node)
        assert told[0].filename == __file__
        with pytest.warns(
            UnresolvedAnnotationWarning, match="router 'node' behind node 'x'"
        ) as told:
            StateGraph(State).add_conditional_edges("x", node)
        assert told[0].filename == __file__
        node.__annotations__ = {"state": "the state of the order"}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            StateGraph(State).add_node(node)


WHERE = te.TypeAliasType("WHERE", Literal["a", "b"])


class TestRoutes:
    @pytest.mark.parametrize(
        "form",
        [
            *forms_of("WHERE", Literal["a", "b"]),
            *(Literal["a", "b"], WHERE | None, "Literal['a'] | Literal['b']"),
            *(list[WHERE], Sequence[WHERE], "tuple[WHERE, ...]", list[WHERE | None] | None),
            *("Literal['a'] | list[Literal['b']]", tuple[Literal["a"], Literal["b"]]),
        ],
        ids=str,
    )
    def test_a_routers_answers(self, form):
        """
        The values of a Literal in any form are the nodes that a router may go to.
        """

        def route(state, other=None): ...

        for action in written(route, **{"state": "Nowhere", "return": form}):
            assert literal_returns(action) == ("a", "b")

    @pytest.mark.parametrize(
        "form",
        [
            *forms_of("Command[WHERE]", Command[WHERE]),
            *(Command[Literal["a", "b"]], Command[WHERE] | None),
            "Command[Literal['a']] | Nowhere | Command[Literal['b']]",
            "dict[str, Nowhere] | Annotated[Command[WHERE], Nowhere(1)]",
            *(list[Command[WHERE]], "Sequence[Command[WHERE] | Nowhere] | None"),
        ],
        ids=str,
    )
    def test_the_destinations_of_commands(self, form):
        """
        Drawings show them whatever else the node may return.
        """

        def node(state, other=None): ...

        for action in written(node, **{"other": "Nowhere", "return": form}):
            assert command_destinations(action) == ("a", "b")

    def test_a_union_with_more_says_nothing(self):
        """
        A router that may return something else than the values may go anywhere.
        """

        def route(state): ...

        for form in (WHERE | str, list[WHERE | str], "WHERE | Nowhere", list):
            for action in written(route, **{"return": form}):
                assert literal_returns(action) == ()


class TestFunctions:
    def test_the_types_of_an_entrypoint(self):
        """
        Its input, saved value and result may be stored although a parameter can't be resolved.
        """

        def program(order, other=None): ...

        program.__annotations__ = {
            "order": "Annotated[Receipt, Nowhere]",
            "other": "Nowhere",
            "return": "entrypoint.final[list[Receipt], Private]",
        }

        assert entrypoint()(program).plan.types == (Receipt,)

    def test_the_result_of_a_task(self):
        """
        Its type is declared as soon as the task is, although a parameter can't be resolved.
        """

        class Own(msgspec.Struct):
            number: int

        def step(order, other=None): ...

        step.__annotations__ = {"other": "Nowhere", "return": Annotated[Own | None, "x"]}
        task(step)

        assert declared(f"{Own.__module__}:{Own.__qualname__}") is Own


def other_readings(source: Source) -> list[Place]:
    """Find code outside of `plan/annotations.py` that reads annotations itself."""
    if source.path == "actorgraph/plan/annotations.py":
        return []
    names = {"get_type_hints", "get_annotations", "__annotations__"}
    found: list[Place] = []
    for node in source.nodes(ast.Name, ast.Attribute, ast.Constant, ast.alias):
        fields = (getattr(node, field, None) for field in ("id", "attr", "value", "name"))
        name = next((one for one in fields if isinstance(one, str) and one in names), None)
        if name and not isinstance(getattr(node, "ctx", None), ast.Store):
            found.append((getattr(node, "lineno", 0), f"{name}: use plan.annotations"))
    return found


def other_signatures(source: Source) -> list[Place]:
    """Find code outside of `errors/signatures.py` that asks Python for a signature itself."""
    if source.path == "actorgraph/errors/signatures.py":
        return []
    names = {"signature", "getfullargspec", "getcallargs", "from_callable", "_signature"}
    found: list[Place] = []
    for node in source.nodes(ast.ImportFrom):
        asked = {alias.name for alias in node.names} & names
        if node.module == "inspect" and asked:
            found.append((node.lineno, f"imports {asked}: use errors.signatures"))
    for node in source.nodes(ast.Attribute):
        of = node.value.attr if isinstance(node.value, ast.Attribute) else ""
        of = node.value.id if isinstance(node.value, ast.Name) else of
        if node.attr in names and of in ("inspect", "Signature"):
            found.append((node.lineno, f"{of}.{node.attr}: use errors.signatures"))
    return found


def test_signatures_are_read_in_one_place():
    """
    Everything else asks `errors.signatures`: any other reading fails in Python 3.14 if an
    annotation has a name that exists for type checkers alone.
    """
    for text in (
        "import inspect\ninspect.signature(f)",
        "from inspect import signature",
        "inspect.getfullargspec(f)",
        "inspect.Signature.from_callable(f)",
    ):
        assert other_signatures(snippet(text)), text
    assert not other_signatures(snippet("self.signature = signature_of(f)"))
    hold(other_signatures, sources("actorgraph"))


def test_annotations_are_read_in_one_place():
    """
    Everything else asks `plan.annotations`, which resolves them one by one.
    """
    for text in ("get_type_hints(f)", "typing.get_type_hints(f)", "f.__annotations__['a']"):
        assert other_readings(snippet(text))
    assert other_readings(snippet("getattr(f, '__annotations__', {})"))
    assert other_readings(snippet("from inspect import get_annotations"))
    hold(other_readings, sources("actorgraph"))
