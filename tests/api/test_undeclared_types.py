"""Values whose types no annotation names: in states, questions, answers and updates of a graph."""

import re
import sys
import threading
import warnings
import weakref
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypedDict, TypeVar

import pytest
from langgraph._internal._runnable import RunnableCallable
from pydantic import BaseModel

from actorgraph import (
    Codec,
    Command,
    InMemorySaver,
    SerializationError,
    SqliteSaver,
    UnknownTypeError,
    interrupt,
)
from actorgraph.api.graph.captured_types import captured_types
from actorgraph.codec.known_types import declare, find_below
from actorgraph.errors import UndeclaredTypeWarning
from tests.support.graphs import at, in_a_row
from tests.support.known_types import restart
from tests.support.warm_processes import run

T = TypeVar("T")


class Base(BaseModel):
    x: int = 1


class Derived(Base):
    y: int = 2


@dataclass
class Other:
    z: int = 3


class Shape(Protocol):
    side: int


@dataclass
class Square(Shape):
    side: int


@dataclass
class Box(Generic[T]):
    value: T


class Tags(set[str]):
    pass


class Level(IntEnum):
    LOW = 1


def of(annotation: Any) -> Any:
    """A schema with one key."""
    return TypedDict("State", {"v": annotation})  # type: ignore[operator]


def made(annotation: Any, value: Any, **options: Any) -> Any:
    """A graph whose node returns the value."""
    return in_a_row({"n": lambda _: {"v": value}}, schema=of(annotation), **options)


CASES = [
    (Any, Base(x=5)),
    (dict, {"m": [Base(x=5), Other()]}),
    (Base, Derived(x=5)),
    (list[Base], [Base(), Derived()]),
    (Shape, Square(4)),
    (str, Other()),
]


@pytest.mark.parametrize(("annotation", "value"), CASES)
async def test_a_value_is_stored(annotation, value):
    """
    A value under Any or in a dict, and one of a subclass, is stored and read in its type.
    """
    saver = InMemorySaver()
    graph = made(annotation, value, checkpointer=saver)
    assert await graph.ainvoke({}, at()) == {"v": value}

    assert (await graph.aget_state(at())).values == {"v": value}
    found = await saver.aget_tuple(at())
    assert found is not None
    assert found.checkpoint["channel_values"]["v"] == value
    assert type(found.checkpoint["channel_values"]["v"]) is type(value)


async def test_questions_and_answers():
    """
    A model may be asked, and be the answer.
    """

    def ask(_: Any) -> dict[str, Any]:
        return {"v": interrupt(Base(x=7))}

    graph = in_a_row({"n": ask}, schema=of(Any), checkpointer=InMemorySaver())
    asked = await graph.ainvoke({}, at())

    assert asked["__interrupt__"][0].value == Base(x=7)
    assert await graph.ainvoke(Command(resume=Other(9)), at()) == {"v": Other(9)}
    assert (await graph.aget_state(at())).values == {"v": Other(9)}


async def test_a_saver_is_read_without_the_graph(tmp_path):
    """
    Another saver of the process knows what schemas have declared: types and their subclasses.
    """
    path = tmp_path / "db"
    async with SqliteSaver(path) as saver:
        await made(Base, Derived(), checkpointer=saver).ainvoke({}, at())
    async with SqliteSaver(path) as saver:
        found = await saver.aget_tuple(at())
        assert found is not None
        assert found.checkpoint["channel_values"]["v"] == Derived()
        listed = [t.checkpoint["channel_values"].get("v") async for t in saver.alist(at())]
        assert listed == [Derived(), None, None]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (re.Pattern, re.compile("a")),
        (re.Pattern[str], re.compile("a")),
        (Box[int], Box(1)),
        (list[Tags] | None, [Tags("a")]),
        (dict[str, Level], {"a": Level.LOW}),
    ],
)
async def test_each_kind_of_annotation_declares(tmp_path, annotation, value):
    """
    A class declares itself in each form of an annotation: plain, generic, a union, a list's items.
    """
    async with SqliteSaver(tmp_path / "db") as saver:
        await made(annotation, value, checkpointer=saver).ainvoke({}, at())
    restart()
    async with SqliteSaver(tmp_path / "db") as saver:
        state = await made(annotation, value, checkpointer=saver).aget_state(at())
        assert state.values == {"v": value}


@pytest.mark.parametrize("annotation", [Base, Shape, "codec"])
async def test_after_a_restart_subclasses_are_known(tmp_path, annotation):
    """
    A declared type's subclasses are found again, without a warning: of a schema's type, of a base
    class that holds no data itself, and of a type on the codec's list.
    """
    path, value = tmp_path / "db", Square(2) if annotation is Shape else Derived()
    codec = Codec([Base]) if annotation == "codec" else None
    schema = Any if codec is not None else annotation
    async with SqliteSaver(path, codec=codec) as saver:
        await made(schema, value, checkpointer=saver).ainvoke({}, at())
    restart()
    async with SqliteSaver(path, codec=codec) as saver:
        state = await made(schema, value, checkpointer=saver).aget_state(at())
        assert state.values == {"v": value}
        assert type(state.values["v"]) is type(value)


@dataclass
class Binding:
    schema: type


def plain_node(kind: Any) -> Any:
    """A node that has the class in its closure."""
    return lambda _: {"v": kind()}


def bound_node(kind: Any) -> Any:
    """A node like that of LangChain's agents, which keep the class of a response in bindings."""
    bindings = {"response": [Binding(kind)]}

    def parse() -> Any:
        return bindings["response"][0].schema()

    def node(_: Any) -> Any:
        return {"v": parse()}

    return node


class Agent:
    """An object whose method is a node."""

    def __init__(self, kind: Any) -> None:
        self.func = plain_node(kind)

    def run(self, state: Any) -> Any:
        """Call the function."""
        return self.func(state)


@pytest.mark.parametrize(
    "node",
    [
        plain_node,
        bound_node,
        lambda kind: partial(lambda kind, _: {"v": kind()}, kind),
        lambda kind: lambda _, kind=kind: {"v": kind()},
        lambda kind: RunnableCallable(bound_node(kind)),
        lambda kind: Agent(kind).run,
    ],
)
async def test_classes_in_closures_of_nodes_are_declared(tmp_path, node):
    """
    A data class that a node's function holds, as agents do, is known after a restart, without a
    warning; and a graph whose node doesn't hold it does not know it.
    """
    async with SqliteSaver(tmp_path / "db") as saver:
        graph = in_a_row({"n": node(Other)}, schema=of(Any), checkpointer=saver)
        await graph.ainvoke({}, at())
    del graph
    restart()
    async with SqliteSaver(tmp_path / "db") as saver:
        with pytest.raises(UnknownTypeError):
            await made(Any, 1, checkpointer=saver).aget_state(at())
        graph = in_a_row({"n": node(Other)}, schema=of(Any), checkpointer=saver)
        assert (await graph.aget_state(at())).values == {"v": Other()}


def test_the_search_in_closures_is_limited():
    """
    A function that holds itself, or thousands of objects, takes little time.
    """
    many: list[Any] = [[[] for _ in range(200)] for _ in range(200)]
    many.append(many)

    def node(_: Any) -> Any:
        return node, many, unfilled

    assert captured_types([node]) == ()
    assert captured_types([plain_node(Other), plain_node(BaseModel), plain_node(int)]) == (Other,)
    unfilled = None


class Unbound:
    """A proxy of nothing: asked for its class or any attribute, it raises."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        """Raise."""
        raise LookupError

    def __getattr__(self, name: str) -> Any:
        """Raise."""
        raise LookupError(name)


class UnboundType(type):
    """The type of a class that raises for any attribute it doesn't have."""

    def __getattr__(cls, name: str) -> Any:
        """Raise."""
        raise LookupError(name)


def test_the_search_in_closures_runs_no_code():
    """
    Proxies of nothing and of an object that is gone are passed over, and the rest is found.
    """
    kind = UnboundType("Kind", (), {})
    held = [Unbound(), kind, kind(), weakref.proxy(Tags()), plain_node(Other)]

    assert captured_types([lambda: held]) == (Other,)


async def test_after_a_restart_a_compiled_graph_declares(tmp_path):
    """
    Once a graph with the type is compiled, a saver is read without it.
    """
    path = tmp_path / "db"
    async with SqliteSaver(path) as saver:
        await made(Base, Derived(), checkpointer=saver).ainvoke({}, at())
    restart()
    async with SqliteSaver(path) as saver:
        with pytest.raises(UnknownTypeError):
            await saver.aget_tuple(at())
        made(Base, 1)
        found = await saver.aget_tuple(at())
        assert found is not None
        assert found.checkpoint["channel_values"]["v"] == Derived()


async def test_one_warning_names_the_declaration(tmp_path):
    """
    The first value of a type that only this process can read is warned of, with its place and the
    declaration; later ones are not, and a saver in memory doesn't warn.
    """
    await made(Any, Other(), checkpointer=InMemorySaver()).ainvoke({}, at())
    async with SqliteSaver(tmp_path / "db") as saver:
        restart()
        with pytest.warns(UndeclaredTypeWarning) as warned:
            await made(Any, Other(), checkpointer=saver).ainvoke({}, at())
        (warning,) = warned
        await made(Any, Other(4), checkpointer=saver).ainvoke({}, at("u"))

    text = str(warning.message)
    assert "writes of n[0][1] has the type 'tests.api.test_undeclared_types:Other'" in text
    assert "codec=Codec(types=[tests.api.test_undeclared_types.Other])" in text


async def test_a_row_that_can_not_be_read_stays(tmp_path):
    """
    A thread with a value of an unknown type is neither read nor run nor changed; with the type's
    declaration it goes on.
    """
    path = tmp_path / "db"
    async with SqliteSaver(path) as saver:
        with pytest.warns(UndeclaredTypeWarning):
            await made(Any, Other(), checkpointer=saver).ainvoke({}, at())
    restart()
    async with SqliteSaver(path) as saver:
        graph = made(Any, 1, checkpointer=saver)
        for call in (graph.ainvoke({}, at()), graph.aget_state(at()), saver.aget_tuple(at())):
            with pytest.raises(UnknownTypeError, match="test_undeclared_types:Other"):
                await call
        with pytest.raises(UnknownTypeError):
            await graph.aupdate_state(at(), {"v": 2})
    async with SqliteSaver(path, codec=Codec([Other])) as saver:
        graph = made(Any, 1, checkpointer=saver)
        assert (await graph.aget_state(at())).values == {"v": Other()}
        assert len([t async for t in saver.alist(at())]) == 3
        assert await graph.ainvoke({}, at()) == {"v": 1}


PROGRAM = """
import sys
from dataclasses import dataclass
from typing import Any, TypedDict
from actorgraph import START, SqliteSaver, StateGraph

class S(TypedDict):
    v: Any

@dataclass
class M:
    a: int = 1

builder = StateGraph(S).add_node("n", lambda s: {"v": M(2)}).add_edge(START, "n")
with SqliteSaver(sys.argv[1]) as saver:
    config = {"configurable": {"thread_id": "t"}}
    graph = builder.compile(checkpointer=saver)
    if sys.argv[2] == "write":
        print(graph.invoke({}, config))
    else:
        print(saver.get_tuple(config))
"""


def test_two_processes(tmp_path: Path):
    """
    The process that stores an undeclared type warns; the next one says what to declare.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    first, second = (run([program, tmp_path / "db", what]) for what in ("write", "read"))

    assert first.stdout == "{'v': M(a=2)}\n"
    assert "UndeclaredTypeWarning" in first.stderr
    assert "codec=Codec(types=[M])" in first.stderr
    assert second.returncode == 1
    assert "UnknownTypeError" in second.stderr
    assert "codec=Codec(types=[M])" in second.stderr


async def test_a_strict_codec(tmp_path):
    """
    A strict codec takes what is declared, and subclasses of it, and nothing else.
    """
    async with SqliteSaver(tmp_path / "db", codec=Codec(strict=True)) as saver:
        await made(Base, Derived(), checkpointer=saver).ainvoke({}, at())
        with pytest.raises(SerializationError, match=r"Other', which can't be stored"):
            await made(Base, Other(), checkpointer=saver).ainvoke({}, at("u"))


def test_a_strict_codec_reads_no_undeclared_type():
    """
    A type that another codec has stored is unknown to a strict one, unless it's declared.
    """
    payload = Codec().for_this_process().encode([Other(), Derived()])
    with pytest.raises(UnknownTypeError, match="test_undeclared_types:Other"):
        Codec([Base], strict=True).decode(payload)
    assert Codec([Base, Other], strict=True).decode(payload) == [Other(), Derived()]


def test_a_warning_that_is_an_error_is_raised_each_time():
    """
    Where warnings are errors, an undeclared type isn't stored, however often it is tried.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UndeclaredTypeWarning):
                Codec().encode(Other())


def test_types_are_looked_for_while_others_are_declared():
    """
    Threads may declare types while another looks for one among them.
    """
    made_types = [type(f"Kind{n}", (Tags,), {"__module__": __name__}) for n in range(3_000)]
    left, failed = threading.Event(), list[Exception]()

    def look() -> None:
        while not left.is_set():
            try:
                find_below("nothing:Nothing")
            except Exception as error:  # noqa: BLE001 - the test reports it
                failed.append(error)
                return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread = threading.Thread(target=look)
        thread.start()
        for kind in made_types:
            declare([kind])
        left.set()
        thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []
