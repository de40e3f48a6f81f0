"""Mermaid text: what LangGraph writes for the same graph, and safe for any name."""

import pytest

from actorgraph.drawing.mermaid import mermaid, safe_id
from actorgraph.drawing.shape import with_inside
from tests.drawing.test_drawing import agent, graph, node, shape

AGENT = """\
---
config:
  flowchart:
    curve: linear
---
graph TD;
	__start__([<p>__start__</p>]):::first
	agent(agent)
	tools(tools)
	tidy(tidy<hr/><small><em>cost = 3
tags = x, y</em></small>)
	__end__([<p>__end__</p>]):::last
	__start__ --> agent;
	agent -. &nbsp;done&nbsp; .-> tidy;
	agent -.-> tools;
	tools --> agent;
	tidy --> __end__;
	classDef default fill:#f2f0ff,line-height:1.2
	classDef first fill-opacity:0
	classDef last fill:#bfb6fc
"""


class TestMermaid:
    @pytest.mark.langgraph("F-L2")
    def test_the_text_is_langgraphs(self):
        """
        Order, classes, labels and metadata are written as LangGraph writes them.
        """
        assert mermaid(shape(agent())) == AGENT

    def test_plain_text_has_edges_only(self):
        """
        Without styles the text has no settings, no nodes' lines and no classes.
        """
        text = mermaid(shape(graph("a")), with_styles=False)

        assert text == "graph TD;\n\t__start__ --> a;\n\ta --> __end__;\n"

    def test_settings_are_merged(self):
        """
        A front matter keeps its own keys; the curve is ours; styles replace one by one.
        """
        text = mermaid(
            shape(graph("a")),
            curve="basis",
            styles={"last": "fill:red"},
            frontmatter={
                "config": {"theme": "neutral", "flowchart": {"wrap": True}},
                "title": "a: b",
            },
        )

        assert text.splitlines()[:7] == [
            "---",
            "config:",
            "  flowchart:",
            "    curve: basis",
            "    wrap: true",
            "  theme: neutral",
            'title: "a: b"',
        ]
        assert text.splitlines()[-3:] == [
            "\tclassDef default fill:#f2f0ff,line-height:1.2",
            "\tclassDef first fill-opacity:0",
            "\tclassDef last fill:red",
        ]

    def test_any_name_can_be_drawn(self):
        """
        Ids have only characters that Mermaid takes, and texts can't break out of their brackets.
        """
        text = mermaid(shape(graph("my (odd) node", "*star*", "é").add_edge("my (odd) node", "é")))

        assert safe_id("my.é") == r"my\2e\e9"
        assert "\tmy\\20\\28odd\\29\\20node(my #40;odd#41; node)\n" in text
        assert "\t\\2astar\\2a(<p>*star*</p>)\n" in text

    def test_long_labels_are_wrapped(self):
        """
        An edge's label has at most the given number of words per line.
        """
        long = graph("a", "b").add_conditional_edges("a", node, {"one two three four": "b"})

        text = mermaid(shape(long), wrap_label_n_words=3)

        assert "a -. &nbsp;one two three&nbsp<br>&nbspfour&nbsp; .-> b;" in text

    def test_subgraphs_are_boxes_in_mermaid(self):
        """
        A subgraph, and one in it, become nested boxes; a second of the same name gets its own id.
        """
        deepest = shape(graph("x", "y").add_edge("x", "y"))
        middle = with_inside(shape(graph("p", "deep").add_edge("p", "deep")), {"deep": deepest})
        outer = shape(graph("mid", "deep").add_edge("mid", "deep"))
        whole = with_inside(outer, {"mid": middle, "deep": deepest})

        lines = mermaid(whole).split("graph TD;\n")[1].splitlines()

        assert lines[2:-3] == [
            "	__start__ --> mid\\3ap;",
            "	mid\\3adeep\\3ay --> deep\\3ax;",
            "	deep\\3ay --> __end__;",
            "	subgraph mid",
            "	mid\\3ap(p)",
            "	mid\\3ap --> mid\\3adeep\\3ax;",
            "	subgraph deep",
            "	mid\\3adeep\\3ax(x)",
            "	mid\\3adeep\\3ay(y)",
            "	mid\\3adeep\\3ax --> mid\\3adeep\\3ay;",
            "	end",
            "	end",
            "	subgraph deep [deep]",
            "	deep\\3ax(x)",
            "	deep\\3ay(y)",
            "	deep\\3ax --> deep\\3ay;",
            "	end",
        ]
