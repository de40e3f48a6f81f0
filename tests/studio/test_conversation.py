"""Messages as conversations: which lists are some, calls with results, safe text and images."""

from dataclasses import dataclass

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage as LangChainAI
from langchain_core.messages import HumanMessage as LangChainHuman
from langchain_core.messages import ToolMessage as LangChainTool

from actorgraph.messages import AIMessage, HumanMessage, ToolMessage
from actorgraph.studio.conversation import IMAGE_MAX, SPOKEN_MAX, conversation_of
from actorgraph.studio.message_text import marked_up

HOSTILE = "<script>alert(1)</script>"
IMAGE = "iVBORw0KGgo="


@dataclass
class Talk:
    """A state that is an object."""

    turns: list


def texts_of(values, **options):
    """Who said what in a state."""
    return [(one.who, one.body.striptags()) for one in conversation_of(values, **options).said]


class TestWhichMessages:
    @pytest.mark.parametrize(
        "messages",
        [
            [HumanMessage("hi"), AIMessage("yes")],
            [LangChainHuman("hi"), LangChainAI("yes")],
            [dumpd(LangChainHuman("hi")), dumpd(LangChainAI("yes"))],
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}],
            [{"type": "human", "content": "hi"}, {"type": "ai", "content": "yes"}],
            [
                {"type": "human", "data": {"content": "hi"}},
                {"type": "ai", "data": {"content": "yes"}},
            ],
        ],
        ids=["own", "langchain", "constructors", "roles", "types", "data"],
    )
    def test_each_form_of_messages_is_a_conversation(self, messages):
        """
        Messages of this library, of LangChain, and their JSON forms are shown alike, at any key.
        """
        said = [("user", "hi"), ("assistant", "yes")]

        for values in ({"n": 1, "turns": messages}, messages, Talk(messages)):
            assert texts_of(values) == said

    @pytest.mark.parametrize(
        "values", [{}, {"log": ["x"]}, {"rows": [{"content": "x"}]}, {"n": [1]}, None, "text", [[]]]
    )
    def test_other_lists_are_none(self, values):
        """
        A state without messages has no conversation.
        """
        assert conversation_of(values) is None

    def test_a_key_can_be_chosen(self):
        """
        Of several lists "messages" comes first; the others are named.
        """
        values = {"drafts": [AIMessage("draft")], "messages": [HumanMessage("hi")]}

        assert texts_of(values) == [("user", "hi")]
        assert texts_of(values, key="drafts") == [("assistant", "draft")]
        assert conversation_of(values).keys == ("drafts", "messages")

    def test_long_ones_are_paged(self):
        """
        A page has the newest messages; the number of its first one leads to the older ones.
        """
        messages = [HumanMessage(str(at)) for at in range(SPOKEN_MAX + 10)]
        page = conversation_of({"messages": messages})
        older = conversation_of({"messages": messages}, before=page.first)

        assert (page.first, len(page.said), page.newest) == (11, SPOKEN_MAX, True)
        assert (older.first, len(older.said), older.newest) == (1, 10, False)
        assert older.said[-1].body.striptags() == "9"

    def test_a_message_says_when_it_was_made(self):
        """
        A time in a message's own fields, or in those of the model, is shown.
        """
        messages = [
            {"role": "user", "content": "x", "created_at": "2026-01-02T03:04:05Z"},
            AIMessage("y", response_metadata={"created": 1_767_323_045}),
            HumanMessage("z", additional_kwargs={"timestamp": "soon"}),
        ]
        times = [one.time and one.time.text for one in conversation_of(messages).said]

        assert times == ["2026-01-02 03:04:05", "2026-01-02 03:04:05", None]


class TestCalls:
    @pytest.mark.parametrize("kinds", [(AIMessage, ToolMessage), (LangChainAI, LangChainTool)])
    def test_results_are_with_their_calls(self, kinds):
        """
        A call shows its arguments and its result; one without a result waits; a failed one says so.
        """
        ai, tool = kinds
        calls = [{"id": str(at), "name": f"t{at}", "args": {"n": at}} for at in range(3)]
        found = conversation_of(
            [
                ai("look", tool_calls=calls),
                tool("one", tool_call_id="0"),
                tool("bad", tool_call_id="1", status="error"),
            ]
        )
        (said,) = found.said

        assert [(one.name, one.status) for one in said.calls] == [
            ("t0", "done"),
            ("t1", "error"),
            ("t2", "waiting"),
        ]
        assert said.calls[0].results[0].striptags() == "one"
        assert '"n": 2' in said.calls[2].args.text

    def test_a_result_without_its_call_is_a_message(self):
        """
        Nothing is lost when the message that called was removed.
        """
        assert texts_of([ToolMessage("left", tool_call_id="9")]) == [("tool", "left")]

    def test_calls_of_other_libraries_are_read(self):
        """
        Calls in OpenAI's form, with their arguments as text, are shown too.
        """
        call = {"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}
        (said,) = conversation_of(
            [{"role": "assistant", "content": None, "tool_calls": [call]}]
        ).said

        assert (said.calls[0].name, said.calls[0].args.text) == ("f", '{\n  "a": 1\n}')


class TestSafety:
    @pytest.mark.parametrize(
        "content",
        [
            HOSTILE,
            [{"type": "text", "text": HOSTILE}],
            [{"type": "thinking", "thinking": HOSTILE}],
            [{"type": HOSTILE, "x": HOSTILE}],
            [{"type": "image_url", "image_url": {"url": f"https://x/{HOSTILE}"}}],
            [{"type": "image_url", "image_url": {"url": f'data:image/png;base64,"{HOSTILE}'}}],
            f"```\n{HOSTILE}\n```",
            f"# {HOSTILE}\n- {HOSTILE}\n> {HOSTILE}\n**{HOSTILE}** `{HOSTILE}`",
            f"[{HOSTILE}](https://x/{HOSTILE})",
        ],
    )
    def test_markup_in_a_message_is_text(self, content):
        """
        No part of a content becomes a tag.
        """
        (said,) = conversation_of([{"role": HOSTILE, "content": content}]).said

        assert "<script" not in said.body
        assert 'src="data:image/png;base64,"' not in said.body

    def test_images_in_the_state_are_shown(self):
        """
        An image that the message contains is shown, in each form that models take.
        """
        for part in (
            {"type": "image", "base64": IMAGE, "mime_type": "image/png"},
            {"type": "image", "source": {"data": IMAGE, "media_type": "image/png"}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
            {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
        ):
            (said,) = conversation_of([{"role": "user", "content": [part]}]).said
            assert f'src="data:image/png;base64,{IMAGE}"' in said.body

    @pytest.mark.parametrize(
        "address",
        [
            "https://example.com/x.png",
            "javascript:alert(1)",
            "data:image/svg+xml;base64,AAAA",
            "data:text/html,x",
            "data:image/png;base64," + "A" * IMAGE_MAX,
        ],
    )
    def test_other_images_are_not_loaded(self, address):
        """
        An image of another server is a link; other kinds of data, and huge ones, are named.
        """
        part = {"type": "image_url", "image_url": {"url": address}}
        (said,) = conversation_of([{"role": "user", "content": [part]}]).said

        assert "<img" not in said.body
        assert ("<a " in said.body) == address.startswith("https:")


class TestMarkdown:
    @pytest.mark.parametrize(
        ("text", "markup"),
        [
            ("a **b** c", "<p>a <strong>b</strong> c</p>"),
            ("a *b* _c_", "<p>a <em>b</em> <em>c</em></p>"),
            ("snake_case_name 2*3*4", "<p>snake_case_name 2*3*4</p>"),
            ("`**a**`", "<p><code>**a**</code></p>"),
            ("one\ntwo", "<p>one<br>two</p>"),
            ("# T\ntext", '<p class="heading">T</p><p>text</p>'),
            ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
            ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
            ("> q", "<blockquote>q</blockquote>"),
            ("```py\nx < 1\n```", '<pre tabindex="0"><code>x &lt; 1</code></pre>'),
            ("```\nopen", '<pre tabindex="0"><code>open</code></pre>'),
            (r"\*a\*", "<p>*a*</p>"),
            ("[x](javascript:alert)", "<p>x (javascript:alert)</p>"),
            ("<b>", "<p>&lt;b&gt;</p>"),
        ],
    )
    def test_a_small_part_of_markdown_is_known(self, text, markup):
        """
        Each form becomes its tag; everything else stays text.
        """
        assert marked_up(text) == markup

    def test_links_and_images_load_nothing(self):
        """
        A link opens another page without naming this one; an image is a link.
        """
        for text in ("[a](https://x.example/)", "![a](https://x.example/)"):
            found = marked_up(text)
            assert 'href="https://x.example/" rel="noopener noreferrer nofollow"' in found
            assert "<img" not in found
