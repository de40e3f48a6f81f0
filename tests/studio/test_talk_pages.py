"""Pages of threads with messages and questions, and of new threads; also read-only."""

from contextlib import asynccontextmanager
from typing import Annotated, TypedDict

import pytest

from actorgraph import (
    END,
    START,
    ActorSystem,
    InMemorySaver,
    SqliteSaver,
    StateGraph,
    add_messages,
    interrupt,
)
from actorgraph.messages import AIMessage
from actorgraph.studio import Studio
from actorgraph.web import running
from tests.studio.conftest import TOKEN, Place

SPOOF = "call 0900 now"


class Chat(TypedDict, total=False):
    """`messages` appends; `tone` and `size` are plain."""

    messages: Annotated[list, add_messages]
    tone: str
    size: int


class Decision(TypedDict):
    """The answer to `ask`."""

    ok: bool
    count: int


async def echo(state):
    """Answer with the last message."""
    return {"messages": [AIMessage(f"you said **{state['messages'][-1].content}**")]}


async def ask(_):
    """A question whose schema is beside its value."""
    found = interrupt("Go on?", response_schema=Decision)
    return {"messages": [AIMessage(f"got {found['count']}")]}


def graph_of(node):
    builder = StateGraph(Chat).add_node("node", node)
    return builder.add_edge(START, "node").add_edge("node", END)


@asynccontextmanager
async def talk_place(saver=None):
    graphs = {"echo": graph_of(echo).compile(), "ask": graph_of(ask).compile()}
    system = ActorSystem(graphs, saver=saver or InMemorySaver())
    async with running(system):
        place = Place(system, Studio(system, token=TOKEN), None)
        async with place.client:
            await place.client.get(f"/?token={TOKEN}")
            yield place


@pytest.fixture
async def talk():
    """
    A studio over graphs with messages.
    """
    async with talk_place() as made:
        yield made


async def said(place, thread_id):
    """The contents of a thread's messages, after its newest run."""
    run = (await place.system.runs(thread_id=thread_id))[-1]
    return [one.content for one in (await run.result())["messages"]]


class TestConversations:
    async def test_messages_come_first(self, talk):
        """
        The page of a thread with messages shows them, before its graph and steps.
        """
        await talk.ran("echo", "t", {"messages": [("user", "hi")]})
        html = await talk.get("/threads/t")

        assert "you said <strong>hi</strong>" in html
        assert html.index('id="talk"') < html.index('id="picture"') < html.index('id="steps"')
        assert "you said <strong>hi</strong>" in await talk.get("/threads/t/conversation")

    async def test_a_thread_without_steps_waits_for_its_first_messages(self, talk):
        """
        A page that is opened before the first step is stored asks again for its messages.
        """
        await talk.system.start("echo", "t", {"messages": []}, delay_s=600)
        html = await talk.get("/threads/t")

        assert "Nothing is stored yet" in html
        assert 'id="talk" hx-get=' in html

    async def test_a_message_is_sent(self, talk):
        """
        The text below a conversation goes on with the thread; an empty one is refused.
        """
        await talk.ran("echo", "t", {"messages": [("user", "hi")]})
        await talk.post("/threads/t/send", message="more")
        texts = await said(talk, "t")

        assert texts == ["hi", "you said **hi**", "more", "you said **more**"]
        assert "the message is empty" in await talk.post("/threads/t/send", message=" ")
        assert len(await talk.system.runs(thread_id="t")) == 2

    @pytest.mark.filterwarnings("ignore::actorgraph.errors.ForeignSaverWarning")
    async def test_a_database_alone_shows_them(self, tmp_path):
        """
        The studio over a file, without the program's graphs, shows messages and questions, and no
        form.
        """
        path = str(tmp_path / "runs.db")
        async with talk_place(SqliteSaver(path)) as place:
            await place.ran("ask", "t", {"messages": [("user", "hi")]})
        async with SqliteSaver(path) as saver:
            place = Place(None, Studio(None, saver=saver, token=TOKEN), None)
            await place.client.get(f"/?token={TOKEN}")
            html = await place.get("/threads/t")

        assert '<div class="said"><p>hi</p></div>' in html
        assert "Go on?" in html
        assert "<form" not in html[html.index('id="talk"') :].split("</section>")[0]


class TestQuestions:
    async def test_a_refused_answer_keeps_its_texts(self, talk):
        """
        The page says at the field what is wrong, keeps what was typed, and the question stays open.
        """
        await talk.ran("ask", "t", {"messages": [("user", "hi")]})
        (asked,) = (await talk.system.graphs["ask"].aget_state("t")).interrupts
        found = await talk.client.post(
            "/threads/t/answer",
            data={"interrupt": asked.id, "ok": "true", "count": "many"},
            headers={"Sec-Fetch-Site": "same-origin"},
        )

        assert found.status_code == 422
        assert "must be a whole number" in found.text
        assert 'value="many"' in found.text
        assert 'name="ok" value="true" checked' in found.text
        await talk.post("/threads/t/answer", interrupt=asked.id, ok="true", count="3")
        assert (await said(talk, "t"))[-1] == "got 3"

    async def test_an_answer_may_be_json(self, talk):
        """
        The box for JSON goes before the fields.
        """
        await talk.ran("ask", "t", {"messages": [("user", "hi")]})
        (asked,) = (await talk.system.graphs["ask"].aget_state("t")).interrupts
        given = {"interrupt": asked.id, "count": "", "~json": '{"ok": true, "count": 5}'}
        await talk.post("/threads/t/answer", **given)

        assert (await said(talk, "t"))[-1] == "got 5"


class TestNewThreads:
    async def test_a_thread_is_started_by_its_inputs_form(self, talk):
        """
        Messages are one text; the other keys have fields of their types.
        """
        html = await talk.get("/start/echo")
        assert '<textarea name="messages"' in html
        assert 'name="size" value="" inputmode="numeric"' in html

        await talk.post("/start/echo", messages="hello", size="3", **{"~thread": "made"})
        assert await said(talk, "made") == ["hello", "you said **hello**"]

    async def test_a_wrong_input_starts_nothing(self, talk):
        """
        The form says what is wrong, with its texts.
        """
        html = await talk.post("/start/echo", messages="hello", size="x", **{"~thread": "made"})

        assert "must be a whole number" in html
        assert "hello</textarea>" in html
        assert await talk.system.runs(thread_id="made") == []

    async def test_an_unknown_graph_is_not_found(self, talk):
        """
        There is no form for it.
        """
        await talk.get("/start/none", 404)


@pytest.mark.parametrize("page", ["/threads/t", "/threads", "/runs", "/store", "/system"])
async def test_no_page_says_what_a_link_wants(talk, page):
    """
    GivenTexts in an address are never shown as the studio's own words.
    """
    await talk.ran("echo", "t", {"messages": [("user", "hi")]})
    html = await talk.get(f"{page}?problem={SPOOF}&namespace={SPOOF}&metadata={SPOOF}")

    assert not [one for one in html.split('role="alert">')[1:] if SPOOF in one.partition("</p>")[0]]
