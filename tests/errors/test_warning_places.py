"""Warnings: each names a line of the program, never one of the library."""

import ast
import asyncio
import dataclasses
import itertools
import linecache
import threading
import warnings
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Literal, TypedDict

import anyio
import pytest

import actorgraph
from actorgraph.checkpoints import InMemorySaver, SqliteSaver
from actorgraph.errors import (
    CompiledGraphWarning,
    LostErrorWarning,
    NothingToRunWarning,
    OldNameWarning,
    OtherGraphWarning,
    SwallowedInterruptWarning,
    UndeclaredTypeWarning,
    UnknownChannelWarning,
    UnreachableNodeWarning,
)
from actorgraph.errors.warning_places import warn
from actorgraph.functional import entrypoint, task
from actorgraph.graph import START, StateGraph
from actorgraph.types import Command, interrupt
from tests.support.graphs import at

FOLDER = Path(actorgraph.__file__).parent
APART = {"compat/children/sitecustomize.py", "errors/warning_places.py"}
"""The first runs where the library may be absent."""


VALUES = {}
NUMBERS = itertools.count()


class State(TypedDict, total=False):
    text: str
    kept: Any


def stray(state):
    """A node that returns a key without a channel."""
    return {"text": "a", "stray": 1}


async def astray(state):
    """The same, async."""
    return {"text": "a", "stray": 1}


def plain(state):
    """A node that returns nothing."""


async def aplain(state):
    """The same, async."""


def swallows(state):
    """A node that catches what `interrupt` raises."""
    try:
        interrupt("ok?")
    except BaseException:  # noqa: BLE001 - the mistake
        return {"text": "caught"}


def undeclared(name):
    """Make a value of a class that nothing declares, a new one: each is warned about once."""
    made = dataclasses.make_dataclass(name, ["size"], namespace={"__module__": __name__})
    globals()[name] = made
    VALUES[name] = made(1)


def commanding():
    """A graph that waits before a node, from which only Commands lead on."""

    def a(state) -> Command[Literal["b"]]:
        return Command(goto="b")

    builder = StateGraph(State).add_node(a).add_node("b", plain).add_edge(START, "a")
    return builder.compile(checkpointer=InMemorySaver(), interrupt_before=["a"])


def graph_of(node, name="node", **compiled):
    """A graph of one node."""
    builder = StateGraph(State).add_node(name, node).add_edge(START, name)
    return builder.compile(**compiled)


def caught(call):
    """The warning of a call, and the line of source that it names."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        call()
    assert [Path(one.filename).name for one in heard] == [Path(__file__).name], heard
    return heard[0], linecache.getline(heard[0].filename, heard[0].lineno).strip()


async def acaught(call):
    """As `caught`, of an async call."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        await call()
    assert [Path(one.filename).name for one in heard] == [Path(__file__).name], heard
    return heard[0], linecache.getline(heard[0].filename, heard[0].lineno).strip()


class TestScan:
    def test_one_function_of_the_library_warns(self):
        """
        Nothing in the library calls Python's `warnings.warn` by itself.
        """
        found = []
        for path in FOLDER.rglob("*.py"):
            if path.relative_to(FOLDER).as_posix() in APART:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                of = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
                if of and node.value.id == "warnings" and node.attr in {"warn", "warn_explicit"}:
                    found.append(f"{path.name}:{node.lineno}")
                if isinstance(node, ast.ImportFrom) and node.module == "warnings":
                    found += [f"{path.name}:{node.lineno}" for n in node.names if "warn" in n.name]
        assert found == []


class TestBuilders:
    def test_an_old_name(self):
        """
        A parameter under its old name is named where the program passes it.
        """
        builder = StateGraph(State)
        one, line = caught(lambda: builder.add_node("a", stray, input=State))
        assert one.category is OldNameWarning
        assert "input=State" in line

    def test_a_change_after_compile(self):
        """
        A node and an edge that come after `compile` are named where they are added.
        """
        builder = StateGraph(State).add_node("a", stray).add_edge(START, "a")
        builder.compile()
        one, line = caught(lambda: builder.add_node("b", stray))
        assert one.category is CompiledGraphWarning
        assert 'add_node("b"' in line
        _, line = caught(lambda: builder.add_edge("a", "b"))
        assert 'add_edge("a"' in line
        _, line = caught(lambda: builder.add_sequence([("c", stray)]))
        assert "add_sequence" in line
        _, line = caught(lambda: builder.add_conditional_edges("a", stray))
        assert "add_conditional_edges" in line

    def test_a_node_that_nothing_leads_to(self):
        """
        An unreachable node is named at the program's `compile`.
        """
        builder = StateGraph(State).add_node("a", stray).add_node("b", stray)
        builder.add_edge(START, "a")
        one, line = caught(lambda: builder.compile(name="support"))
        assert one.category is UnreachableNodeWarning
        assert 'compile(name="support")' in line

    def test_a_node_behind_an_unreachable_one(self):
        """
        An edge from an unreachable node reaches nothing: the text speaks of paths from START.
        """
        builder = StateGraph(State).add_node("a", stray).add_node("b", stray)
        builder.add_node("c", stray).add_edge(START, "a").add_edge("b", "c")
        one, _ = caught(builder.compile)
        assert "no path of edges leads from START to 'b', 'c'" in str(one.message)


class TestRuns:
    def test_a_blocking_call(self):
        """
        A key without a channel is named at the blocking call of the run.
        """
        graph = graph_of(stray)
        one, line = caught(lambda: graph.invoke({"text": ""}))
        assert one.category is UnknownChannelWarning
        assert "graph.invoke" in line
        _, line = caught(lambda: list(graph.stream({"text": ""})))
        assert "graph.stream" in line

    def test_a_blocking_call_of_an_async_node(self):
        """
        So is that of an async node.
        """
        graph = graph_of(astray)
        _, line = caught(lambda: graph.invoke({"text": ""}))
        assert "graph.invoke" in line

    @pytest.mark.parametrize(
        "node", [stray, astray, partial(stray)], ids=["plain", "async", "part"]
    )
    async def test_an_async_call(self, node):
        """
        A task of an event loop has no line of the program below it: the node's function is named.
        """
        graph = graph_of(node)
        one, line = await acaught(lambda: graph.ainvoke({"text": ""}))
        assert one.category is UnknownChannelWarning
        assert "stray(state)" in line

        async def read():
            async for _ in graph.astream({"text": ""}):
                pass

        _, line = await acaught(read)
        assert "stray(state)" in line

    def test_a_key_of_an_input(self):
        """
        A stray key of an input is named where the run is started.
        """
        graph = graph_of(plain)
        _, line = caught(lambda: graph.invoke({"text": "", "other": 1}))
        assert "graph.invoke" in line

    async def test_a_key_of_an_async_input(self):
        """
        So is it by an async call.
        """
        graph = graph_of(plain)

        async def main():
            await graph.ainvoke({"text": "", "other": 1})

        _, line = await acaught(main)
        assert "graph.ainvoke" in line

    def test_a_swallowed_interrupt(self):
        """
        A node that catches the exception of `interrupt` is named at the blocking call.
        """
        graph = graph_of(swallows, checkpointer=InMemorySaver())
        one, line = caught(lambda: graph.invoke({"text": ""}, at("t")))
        assert one.category is SwallowedInterruptWarning
        assert "graph.invoke" in line

    async def test_a_swallowed_interrupt_of_an_async_call(self):
        """
        By an async call it is named where it is defined.
        """
        graph = graph_of(swallows, checkpointer=InMemorySaver())
        _, line = await acaught(lambda: graph.ainvoke({"text": ""}, at("u")))
        assert "def swallows" in line

    def test_a_lost_error(self):
        """
        A failed `@task` call without a reader is named where its caller is defined.
        """

        @task
        async def fails():
            raise ValueError

        @entrypoint()
        async def flow(given):
            fails()
            await anyio.sleep(0.01)
            return given

        one, line = caught(lambda: asyncio.run(flow.ainvoke("x")))
        assert one.category is LostErrorWarning
        assert "def flow" in line or "@entrypoint" in line

    def test_a_run_in_another_thread(self):
        """
        A run that the program starts in a thread of its own names its line there.
        """
        graph = graph_of(stray)

        def work():
            graph.invoke({"text": ""})

        def call():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

        _, line = caught(call)
        assert "graph.invoke" in line


class TestSavers:
    @pytest.mark.parametrize("node", [plain, aplain])
    def test_another_graph(self, node):
        """
        A thread of another graph is named where the run is started, in whatever thread it runs.
        """
        saver = InMemorySaver()
        graph_of(plain, "a", checkpointer=saver).invoke({"text": ""}, at("t"))
        other = graph_of(node, "b", checkpointer=saver)
        one, line = caught(lambda: other.invoke({"text": ""}, at("t")))
        assert one.category is OtherGraphWarning
        assert "other.invoke" in line

    async def test_another_graph_of_an_async_call(self):
        """
        So is it by an async call.
        """
        saver = InMemorySaver()
        await graph_of(plain, "a", checkpointer=saver).ainvoke({"text": ""}, at("t"))
        other = graph_of(plain, "b", checkpointer=saver)

        async def main():
            await other.ainvoke({"text": ""}, at("t"))

        _, line = await acaught(main)
        assert "other.ainvoke" in line

    def test_an_undeclared_type(self, tmp_path):
        """
        A type that nothing declares is named at the blocking call that stores it.
        """
        undeclared("Blocking")
        with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = graph_of(lambda state: {"kept": VALUES["Blocking"]}, checkpointer=saver)
            one, line = caught(lambda: graph.invoke({"text": ""}, at("t")))
        assert one.category is UndeclaredTypeWarning
        assert "graph.invoke" in line

    async def test_an_undeclared_type_of_an_async_call(self, tmp_path):
        """
        By an async call a line of the program is named, the call or the class.
        """
        undeclared(name := f"Awaited{next(NUMBERS)}")

        async def keeps(state):
            return {"kept": VALUES[name]}

        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph = graph_of(keeps, checkpointer=saver)
            one, _ = await acaught(lambda: graph.ainvoke({"text": ""}, at("t")))
        assert one.category is UndeclaredTypeWarning

    def test_an_edit_that_leads_nowhere(self):
        """
        An update after which nothing runs is named where it is made.
        """
        graph = commanding()
        graph.invoke({"text": ""}, at("t"))
        one, line = caught(lambda: graph.update_state(at("t"), {"text": "x"}, as_node="a"))
        assert one.category is NothingToRunWarning
        assert "graph.update_state" in line

    async def test_an_async_edit_that_leads_nowhere(self):
        """
        So is an async one.
        """
        graph = commanding()
        await graph.ainvoke({"text": ""}, at("t"))

        async def main():
            await graph.aupdate_state(at("t"), {"text": "x"}, as_node="a")

        _, line = await acaught(main)
        assert "graph.aupdate_state" in line


class TestPlaces:
    def test_a_module_of_the_program_with_pythons_name(self, tmp_path):
        """
        A program's own module `code` is the program, though Python has one of that name.
        """
        (tmp_path / "code.py").write_text("def call(warn):\n    warn('text', UserWarning)\n")
        spec = spec_from_file_location("code", tmp_path / "code.py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            module.call(warn)
        assert (heard[0].filename, heard[0].lineno) == (str(tmp_path / "code.py"), 2)

    def test_a_filter_by_module(self):
        """
        A program's filter by its own module finds the warning.
        """
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
            graph_of(stray).invoke({"text": ""})
        assert heard == []
