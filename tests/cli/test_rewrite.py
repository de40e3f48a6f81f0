"""The codemod's rewrite: imports move, everything else stays, and what can't move is said."""

import ast
from textwrap import dedent

import pytest

from actorgraph.cli.name_map import NAMES
from actorgraph.cli.rewrite import rewrite


def moved(text):
    """The program after the rewrite, which must leave nothing to look at."""
    result = rewrite(dedent(text), NAMES)
    assert result.remarks == []
    ast.parse(result.text)
    return result.text


def remarks(text):
    return [(remark.line, remark.text) for remark in rewrite(dedent(text), NAMES).remarks]


MOVES = [
    ("from langgraph.graph import StateGraph", "from actorgraph import StateGraph"),
    ("from langgraph.graph import StateGraph as SG", "from actorgraph import StateGraph as SG"),
    ("from langgraph.types import Command, Send", "from actorgraph import Command, Send"),
    (
        "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # async",
        "from actorgraph import AsyncSqliteSaver  # async",
    ),
    (
        "from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer",
        "from actorgraph import Codec as JsonPlusSerializer",
    ),
    (
        "from langgraph.errors import NodeInterrupt",
        "from actorgraph import NodeInterrupt",
    ),
    ("from langgraph.prebuilt import ToolNode", "from actorgraph.prebuilt import ToolNode"),
    ("from langgraph.channels.topic import Topic", "from actorgraph.channels import Topic"),
    ("import os, langgraph.graph as g\ng.START", "import os\nimport actorgraph as g\ng.START"),
    ("import langgraph.graph\nlanggraph.graph.END", "import actorgraph\nactorgraph.END"),
    (
        "import langgraph.graph, langgraph.channels\nlanggraph.channels.Topic, langgraph.graph.END",
        "import actorgraph\nimport actorgraph.channels\nactorgraph.channels.Topic, actorgraph.END",
    ),
    ("import langgraph.channels.topic", "import actorgraph.channels"),
    ("import langgraph.graph\nlanggraph.types.Send", "import actorgraph\nactorgraph.Send"),
    (
        "from langgraph import graph, types as t\ngraph.START, t.Send",
        "import actorgraph as graph\nimport actorgraph as t\ngraph.START, t.Send",
    ),
    (
        "from langgraph.checkpoint import memory\nmemory.MemorySaver()",
        "import actorgraph as memory\nmemory.MemorySaver()",
    ),
    (
        "x = 1; from langgraph.graph import START; y = 2",
        "x = 1; from actorgraph import START; y = 2",
    ),
    ("import langgraph.types as t; x = t.Send", "import actorgraph as t; x = t.Send"),
    (
        "from langchain_core.messages import AIMessage",
        "from langchain_core.messages import AIMessage",
    ),
    ("from .langgraph import graph", "from .langgraph import graph"),
    ("import langgraphs", "import langgraphs"),
    ('"é"; from langgraph.graph import START', '"é"; from actorgraph import START'),
    ("from langgraph.graph import START\r\nx = 1\r\n", "from actorgraph import START\r\nx = 1\r\n"),
]


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_an_import_moves(before, after):
    """
    Each form of import gets its new home, and names keep what they are called in the program.
    """
    assert moved(before) == after


def test_layout_and_comments_stay():
    """
    An import of several lines with one new home keeps its lines and comments.
    """
    text = """\
    from typing import TYPE_CHECKING

    from langgraph.graph import (  # the graph
        END,  # the end
        START,
        StateGraph,
    )

    if TYPE_CHECKING:
        from langgraph.graph.state import CompiledStateGraph
    """

    assert moved(text) == dedent(text).replace("langgraph.graph.state", "actorgraph").replace(
        "langgraph.graph", "actorgraph"
    )


def test_one_import_may_become_several():
    """
    Names whose homes differ are imported from each, indented as before, comments above.
    """
    homes = {"langgraph.a": {"X": "actorgraph.X", "Y": "actorgraph.y.Z"}}
    text = dedent(
        """\
        def f():
            from langgraph.a import (
                X,
                # why
                Y as W,
                Missing,
            )
        """
    )

    result = rewrite(text, homes)

    assert result.text == dedent(
        """\
        def f():
            # why
            from actorgraph import X
            from actorgraph.y import Z as W
            from langgraph.a import Missing
        """
    )
    assert [r.text for r in result.remarks] == [
        "'Missing' of langgraph.a has no equivalent in actorgraph"
    ]


def test_long_imports_are_broken():
    """
    A new import that would be too long for a line has one name per line.
    """
    names = [f"a_name_of_some_length_{i}" for i in range(5)]
    homes = {"langgraph.a": {n: f"actorgraph.{n}" for n in names} | {"B": "actorgraph.b.B"}}

    result = rewrite(f"from langgraph.a import {', '.join(names)}, B", homes)

    lines = [f"    {name}," for name in names]
    assert result.text.split("\n") == [
        "from actorgraph import (",
        *lines,
        ")",
        "from actorgraph.b import B",
    ]


def test_a_module_whose_names_have_several_homes():
    """
    The commonest home keeps the module's name in the program; other names get their full path.
    """
    homes = {"langgraph.a": {"X": "actorgraph.X", "Y": "actorgraph.y.Z", "W": "actorgraph.W"}}

    result = rewrite("import langgraph.a as a\na.X, a.Y, a.W", homes)

    assert result.text == ("import actorgraph as a\nimport actorgraph.y\na.X, actorgraph.y.Z, a.W")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "from langgraph.graph import Graph",
            "'Graph' of langgraph.graph has no equivalent in actorgraph",
        ),
        (
            "from langgraph.graph import *",
            "all names of langgraph.graph has no equivalent in actorgraph",
        ),
        (
            "from langgraph.secret import X",
            "'X' of langgraph.secret has no equivalent in actorgraph",
        ),
        (
            "import langgraph.secret as s",
            "the module langgraph.secret has no equivalent in actorgraph",
        ),
        (
            "import langgraph.graph as g\ngetattr(g, name)",
            "line 2 uses the module langgraph.graph in an unsupported way",
        ),
        (
            "import langgraph.graph\nlanggraph.graph.Secret",
            "line 2 uses the module langgraph in an unsupported way",
        ),
    ],
)
def test_names_without_a_home_stay_and_are_reported(text, expected):
    """
    A name, a star or a use that can't be followed keeps its import, with its line and reason.
    """
    assert rewrite(text, NAMES).text == text
    assert remarks(text) == [(1, expected)]


def test_names_in_strings_are_shown():
    """
    The target of a mock is text: it is named with its new home, and left alone.
    """
    text = 'x = 1\npatch("langgraph.graph.StateGraph")\n"langgraph.nothing.X"'

    assert rewrite(text, NAMES).text == text
    assert remarks(text) == [
        (2, "the string 'langgraph.graph.StateGraph' names actorgraph.StateGraph of actorgraph")
    ]


OUTDATED = [
    (
        "StateGraph(S, config_schema=C)",
        "StateGraph(config_schema=) is not supported here",
    ),
    ("StateGraph(S, input=I)", "StateGraph(input=) is not supported here: write input_schema"),
    ("b.add_node('n', f, retry=r)", "add_node(retry=) is not supported here: write retry_policy"),
    ("g.invoke({}, c, checkpoint_during=False)", "invoke(checkpoint_during=) is not supported"),
    ("Interrupt('q', ns=['a'])", "Interrupt(ns=) is not supported here"),
    ("i.interrupt_id", ".interrupt_id is .id here"),
    ("create_react_agent(m, [], state_modifier='x')", "create_react_agent(state_modifier=) is not"),
]


@pytest.mark.parametrize(("call", "said"), OUTDATED)
def test_an_outdated_argument_is_said(call, said):
    """
    Deprecated uses of LangGraph that would be a TypeError here are listed, with what to write.
    """
    ((line, text),) = remarks(f"from langgraph.graph import StateGraph\n{call}")

    assert line == 2
    assert text.startswith(said)
    assert remarks(f"from somewhere import StateGraph\n{call}") == []
