"""examples/chat over HTTP: its login, whose conversations are whose, and the how-to that shows it.

What its page does is in `browser/`, by `make chat-test`.
"""

import json
import re

import pytest
from starlette.testclient import TestClient

from chat.app import make_app
from chat.graph import ANSWER
from chat.login import COOKIE
from tests.docs.blocks import blocks
from tests.support.source_files import ROOT

PAGE = ROOT / "docs" / "how-to" / "serve-over-http.md"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """
    The application in this process, with a client that hasn't logged in.
    """
    app = make_app(tmp_path_factory.mktemp("chat") / "chat.db", word_s=0)
    with TestClient(app, base_url="http://localhost") as made:
        yield made


@pytest.fixture
def ada(client):
    """
    A client that has logged in.
    """
    assert client.post("/api/login", json={"user": "ada"}).status_code == 204
    yield client
    client.cookies.clear()


def new_chat(client):
    return client.post("/api/chats").json()["id"]


def send(client, chat, text):
    return client.post(f"/api/chats/{chat}/messages", json={"text": text}).json()["run"]


def events(client, run, last=None):
    """The events of a run, `(id, name, data)` each."""
    headers = {} if last is None else {"Last-Event-ID": last}
    text = client.get(f"/api/runs/{run}/events", headers=headers).text
    found = re.findall(r"(?:^id: (\d+)\n)?^event: (.+)\ndata: (.+)$", text, re.MULTILINE)
    return [(number, name, json.loads(data)) for number, name, data in found]


class TestConversations:
    def test_an_answer_is_streamed_in_the_compact_form(self, ada):
        """
        A message's first piece has its fields; a client that comes back gets what it lacks.
        """
        run = send(ada, new_chat(ada), "Hello")
        told = events(ada, run)
        pieces = [data for _, name, data in told if name == "messages"]

        assert pieces[1] == {"content": " wrote:"}
        first, *later = pieces
        text = first[0]["content"] + "".join(piece["content"] for piece in later)
        assert text == ANSWER.format(text="Hello")
        rest = events(ada, run, told[-3][0])
        assert [one[:2] for one in rest] == [one[:2] for one in told[-2:]]

    def test_a_wrong_answer_leaves_the_question_open(self, ada):
        """
        An answer that doesn't fit the form's schema is a 422, and a fitting one goes on.
        """
        chat = new_chat(ada)
        events(ada, send(ada, chat, "book a room"))
        [question] = ada.get(f"/api/chats/{chat}").json()["questions"]
        path = f"/api/chats/{chat}/answers"
        wrong = ada.post(path, json={"answers": {question["id"]: {"room": "big", "nights": 1}}})
        right = ada.post(path, json={"answers": {question["id"]: {"room": "suite", "nights": 1}}})
        events(ada, right.json()["run"])

        assert wrong.status_code == 422
        last = ada.get(f"/api/chats/{chat}").json()["messages"][-1]
        assert last["content"] == "Done: a suite room for 1 night, with breakfast."

    def test_others_conversations_and_runs_are_hidden(self, ada):
        """
        Another user's conversation and run are 404, like those that don't exist.
        """
        chat = new_chat(ada)
        run = send(ada, chat, "Hello")
        events(ada, run)
        ada.post("/api/login", json={"user": "grace"})
        paths = [f"/api/chats/{chat}", f"/api/runs/{run}/events", "/api/runs/none/events"]

        assert [ada.get(path).status_code for path in paths] == [404, 404, 404]
        assert ada.get("/api/chats").json()["chats"] == []


class TestLogin:
    def test_a_forged_cookie_is_refused(self, client):
        """
        Only a cookie that this application has signed names a user, and each route asks for one.
        """
        client.post("/api/login", json={"user": "grace"})
        forged = client.cookies[COOKIE].replace("grace", "ada")
        client.cookies.clear()
        answers = [
            client.get("/api/chats", headers={"Cookie": f"{COOKIE}={cookie}"}).status_code
            for cookie in (forged, "ada", "ada.9999999999.", "")
        ]

        assert answers == [401] * 4
        assert client.post("/api/login", json={"user": "eve"}).status_code == 403

    def test_other_sites_are_refused(self, ada):
        """
        A page of another site can't act as the user; each answer says what a page may load.
        """
        refused = ada.post("/api/chats", headers={"Origin": "https://other.example"})

        assert refused.status_code == 403
        assert "script-src 'self'" in ada.get("/").headers["content-security-policy"]


class TestHowTo:
    def test_the_page_shows_the_program(self):
        """
        Each block that is titled with a file of the example is in that file, word by word.
        """
        shown = [one for one in blocks(PAGE.read_text("utf-8")) if "examples/" in (one.title or "")]

        assert len(shown) >= 4
        for block in shown:
            source = (ROOT / block.title).read_text("utf-8")
            assert "\n".join(block.lines).strip() in source, block.title
