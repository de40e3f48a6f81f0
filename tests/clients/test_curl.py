"""`curl -N`: reads a stream as it is written, and goes on after it was cut."""

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from tests.clients.app import WORDS
from tests.clients.servers import CURL, begin, free_port, let, serving
from tests.web.clients import Events

pytestmark = pytest.mark.skipif(CURL is None, reason="curl is not installed")

ASKED = {"messages": [{"type": "human", "content": "weather?", "id": "q"}]}
TIMED_OUT = 28
PATHS = {"langgraph": "/threads/t/runs/{run}/stream", "events": "/events/{run}"}


def curl(url: str, *words: str) -> subprocess.Popen[str]:
    """Start curl as a person would."""
    command = [str(CURL), "-sN", *words, url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """The exit status and the lines of curl."""
    out, _ = process.communicate()
    return process.returncode, out.splitlines()


def text_of(events: Sequence[Any], name: str = "messages") -> str:
    """The answer's text, of its pieces in either form."""
    found = ""
    for event in events:
        if event.name != name:
            continue
        piece = event.data[0] if isinstance(event.data, list) else event.data
        is_piece = piece.get("id") in {"answers", None} and "content" in piece
        if is_piece and piece.get("type", "AIMessageChunk") == "AIMessageChunk":
            found += piece["content"]
    return found


@pytest.mark.parametrize("form", PATHS)
def test_it_goes_on_after_its_last_event(tmp_path, form):
    """
    A stream that `--max-time` cuts in the middle of an answer goes on behind the header
    `Last-Event-ID`, and ends with the run: each event once.
    """
    events = Events()
    with serving(tmp_path / "runs.db", free_port()) as made:
        run = begin(made.url, "words", ASKED, stream_mode=["messages-tuple"])
        url = made.url + PATHS[form].format(run=run)
        for _ in WORDS[:2]:
            let(made)
        status, lines = said(curl(url, "--max-time", "2"))
        events.read(iter(lines))
        before = text_of(events.all)
        for _ in WORDS[2:]:
            let(made)
        ended, lines = said(curl(url, "-H", f"Last-Event-ID: {events.last_id}"))
        events.read(iter(lines))
        over, lines = said(curl(url, "-H", f"Last-Event-ID: {events.last_id}"))

    assert (status, ended, over) == (TIMED_OUT, 0, 0)
    assert before == "".join(WORDS[:2])
    assert text_of(events.all) == "".join(WORDS)
    assert events.faults().total() == 0
    assert events.names[-1] == "end"
    assert lines == []


@pytest.mark.parametrize("form", PATHS)
def test_each_word_is_read_when_it_is_written(tmp_path, form):
    """
    The next word is written when curl has printed the one before.
    """
    heard: list[str] = []
    with serving(tmp_path / "runs.db", free_port()) as made:
        run = begin(made.url, "words", ASKED, stream_mode=["messages-tuple"])
        let(made)
        reader = curl(made.url + PATHS[form].format(run=run))
        assert reader.stdout is not None
        for line in reader.stdout:
            found = [word for word in WORDS if f'"content":"{word}"' in line]
            heard += found
            if found:
                let(made)
        reader.stdout.close()

    assert reader.wait() == 0
    assert heard == list(WORDS)
