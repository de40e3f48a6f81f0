"""The codemod's report: uses that the moved program would break on, each with what to do."""

from textwrap import dedent

import pytest

from actorgraph.cli.name_map import NAMES
from actorgraph.cli.objects import objects_of
from actorgraph.cli.rewrite import rewrite

GRAPH = """\
from langgraph.graph import StateGraph
builder = StateGraph(dict)
graph = builder.compile()
"""


def report(text, start=GRAPH, **more):
    """The remarks about a program after some lines; their lines count from those."""
    lines = start.count("\n")
    found = rewrite(start + dedent(text), NAMES, **more).remarks
    return [(r.line - lines, r.text, r.do) for r in found if r.line > lines and not r.is_note]


REPORTED = [
    ("graph.invoke({}, {'thread_id': '1'})", "the config has thread_id at its top level"),
    ("c = {'thread_id': '1'}\ngraph.invoke({}, config=c)", "the config has thread_id at its top"),
    ("graph.nonsense", "graph.nonsense does not exist here"),
    ("builder.nonsense()", "builder.nonsense does not exist here"),
    ("builder.add_node('n', f, nonsense=1)", "builder.add_node(nonsense=) is not an argument"),
    ("StateGraph(dict, nonsense=1)", "StateGraph(nonsense=) is not an argument here"),
    ("from langgraph.types import Command\nCommand.NONSENSE", "Command.NONSENSE does not exist"),
    ("from langgraph.types import Send\nSend[int]", "Send[...] has no type parameters here"),
    ("import langgraph.types as t\nt.Send('n', 1, nonsense=1)", "t.Send(nonsense=) is not an arg"),
    ("from langgraph.func import task\n@task(retry=None)\ndef f(): ...", "task(retry=) is not"),
    (
        "import importlib\nimportlib.import_module('langgraph.graph')",
        "the module 'langgraph.graph'",
    ),
    ("__import__('langgraph')", "the module 'langgraph' is imported by its name"),
    ("mock.patch('langgraph.graph.StateGraph')", "the string 'langgraph.graph.StateGraph' names"),
    ("x: 'langgraph.graph.StateGraph'", "the string 'langgraph.graph.StateGraph' names"),
    ("from langchain.agents import create_agent", "langchain.agents imports langgraph itself"),
    ("import langgraph_supervisor.supervisor as s", "langgraph_supervisor imports langgraph"),
    ("from langchain import agents", "langchain.agents imports langgraph itself"),
    ("def f():\n    from deepagents import create_deep_agent", "deepagents imports langgraph"),
    ("from langgraph._internal._config import x", "'x' of langgraph._internal._config has no"),
    ("from langgraph.pregel._loop import PregelLoop", "'PregelLoop' of langgraph.pregel._loop has"),
    (
        "try:\n    from langgraph.graph import MessageGraph\nexcept ImportError: ...",
        "'MessageGraph'",
    ),
    ("from langgraph.graph import *", "all names of langgraph.graph has no equivalent"),
    ("JsonPlusSerializer(pickle_fallback=True)", "JsonPlusSerializer(pickle_fallback=) is not"),
]


@pytest.mark.parametrize(("text", "said"), REPORTED)
def test_a_use_that_would_break_is_reported(text, said):
    """
    Each kind of use that this library doesn't have is reported once, at its line.
    """
    ((line, told, _),) = report(text)

    assert told.startswith(said)
    assert 1 <= line <= text.count("\n") + 1


FINE = [
    "graph.invoke({}, {'configurable': {'thread_id': '1'}})",
    "graph.invoke({}, {'recursion_limit': 5}, durability='exit')",
    "model.invoke('x', {'thread_id': '1'}, nonsense=1)",
    "import re\npattern = re.compile('x', flags=1)\npattern.nonsense",
    "app = builder.add_node('n', f).compile(name='x')\napp.get_graph().draw_mermaid()",
    "import logging\nlogging.getLogger('langgraph.pregel')",
    "from langgraph.errors import NodeInterrupt\nraise NodeInterrupt('why?')",
    "from langgraph.checkpoint.sqlite import SqliteSaver\nSqliteSaver.from_conn_string('a.db')",
    "from langgraph.types import Command\ndef f() -> Command[str]: ...",
    "from langgraph.runtime import Runtime\ndef f(s, runtime: Runtime[int]): ...",
    "from langgraph.types import Interrupt\nInterrupt(value=1, id='x').value",
    "from langchain.tools import tool\nfrom langchain_core.messages import AIMessage",
    "from langgraph.checkpoint.mongodb import MongoDBSaver",
    "def f():\n    graph.invoke({})",
    "async def f():\n    await graph.ainvoke({})\n    def g(): graph.invoke({})",
    "builder = builder.compile()\nbuilder.nonsense",
]


@pytest.mark.parametrize("text", FINE)
def test_a_use_that_works_is_not_reported(text):
    """
    Uses that work here, and calls of other libraries' objects, leave nothing to do.
    """
    assert report(text) == []


@pytest.mark.parametrize(
    ("call", "do"),
    [
        ("graph.invoke({})", "await graph.ainvoke(...)"),
        ("[c for c in graph.stream({})]", "async for ... in graph.astream(...)"),
        ("graph.update_state({}, {})", "await graph.aupdate_state(...)"),
    ],
)
def test_blocking_calls_in_async_functions(call, do):
    """
    A blocking call of a graph in an async function is reported with its async form.
    """
    ((line, told, advice),) = report(f"async def view():\n    return {call}")

    assert (line, advice) == (2, do)
    assert "'view', and is refused there" in told


def test_graphs_are_known_wherever_they_come_from():
    """
    Attributes, functions that return one, agents, parameters, and what an entrypoint makes.
    """
    text = dedent(
        """\
        class Bot:
            def __init__(self):
                self.graph = StateGraph(dict).add_node("n", f).compile()

        def make():
            return make_other()

        def make_other():
            return builder.compile()

        agent = create_react_agent(model, [])
        made = make()
        bound = made.with_config({"tags": []})

        @entrypoint()
        def flow(x): ...

        def use(given: CompiledStateGraph[int], b: "StateGraph"): ...
        """
    )
    import ast

    found = objects_of(ast.parse("builder = StateGraph(dict)\n" + text))

    assert found.graphs == {"self.graph", "agent", "made", "bound", "flow", "given"}
    assert found.makers == {"make", "make_other"}
    assert found.builders == {"builder", "b"}


def test_an_assignment_that_is_refused():
    """
    A property of a graph that can't be assigned is reported; others are not.
    """
    told = report("graph.checkpointer = None\ngraph.nodes = {}")

    assert told == [
        (2, "graph.nodes can't be assigned here", "pass it to compile(), such as compile(name=...)")
    ]


def test_every_report_without_a_replacement_says_what_to_do():
    """
    Private names, other packages and unknown names lead to the layer, stars to their names.
    """
    text = """
    from langgraph._internal._config import a
    from langgraph.graph import *
    from langgraph.graph import MessageGraph, Nonsense
    from langchain.agents import create_agent
    """
    advice = [do for _, _, do in report(text)]

    assert advice[0].startswith("it is private")
    assert advice[1] == "import the names that the program uses"
    assert advice[2] == "use StateGraph(MessagesState)"
    assert all("actorgraph.compat.install()" in do for do in (advice[0], *advice[3:]))


def test_a_package_of_the_program_itself_is_not_reported():
    """
    A program that is one of these packages may import itself.
    """
    assert report("import deepagents.graph", own={"deepagents"}) == []
    assert len(report("import deepagents.graph")) == 1


def test_notes_leave_nothing_to_do():
    """
    A saver of another project keeps its import, as a note.
    """
    (note,) = rewrite("from langgraph.checkpoint.mongodb import MongoDBSaver\n", NAMES).remarks

    assert note.is_note
    assert "'MongoDBSaver' of langgraph.checkpoint.mongodb keeps its import" in note.text
