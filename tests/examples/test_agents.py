"""examples/agents: what each program says, with the fake model; tests/docs starts each alone."""

import sys
from importlib import import_module

import pytest

from tests.support.source_files import ROOT

FOLDER = ROOT / "examples" / "agents"


@pytest.fixture
def program(monkeypatch):
    """Import a program from its folder, as it is when it is started."""
    monkeypatch.syspath_prepend(FOLDER)
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield import_module
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


class TestPrograms:
    async def test_tools_are_called_and_words_streamed(self, program, capsys):
        """
        The answer has the results of both tool calls; the 429 before it was waited for.
        """
        answer = await program("tool_agent").main("Rome and Oslo?")

        assert answer == "It is sunny, 31 °C and snow, -4 °C."
        assert "[weather: snow, -4 °C]" in capsys.readouterr().out

    async def test_a_person_decides_about_a_call(self, program):
        """
        Approved, refused and changed: the tool does what the person said.
        """
        assert await program("approved_tools").main(["yes", "no", "20"]) == [
            "Done: transferred 50 euros to Ada.",
            "Done: the person refused the transfer.",
            "Done: transferred 20 euros to Ada.",
        ]

    async def test_the_desk_hands_over(self, program):
        """
        The question about a balance is answered by the other agent.
        """
        said = await program("handoff").main()

        assert said[1] == "desk: Hello! How can I help?"
        assert said[-1] == "accountant: The balance is 120 euros."

    async def test_notes_are_found_in_other_threads(self, program):
        """
        Each user's question finds the nearest of their own notes, and none of another user's.
        """
        *_, ann, bob = await program("remembering").main()

        assert ann == "You said: My favourite colour is green."
        assert bob == "I don't know."

    @pytest.mark.long  # it imports the client of OpenAI
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])  # LangChain's async code needs it
    async def test_langchains_model_works_too(self, program):
        """
        ChatOpenAI streams its answer, after its tool call.
        """
        assert await program("langchain_model").main() == "That has 6 words."

    @pytest.mark.long  # it starts two processes
    def test_no_step_is_lost_or_repeated(self, program, capsys, monkeypatch):
        """
        Killed after three steps, the second life does the other four.
        """
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        program("durable_research").main()

        assert "7 steps in two lives, 7 without the kill; notes: 5" in capsys.readouterr().out


def test_the_page_lists_every_program():
    """
    examples/README.md names each program and application.
    """
    page = (ROOT / "examples" / "README.md").read_text("utf-8")
    programs = [
        path.relative_to(ROOT / "examples").as_posix()
        for folder in (".", "agents", "from_langgraph")
        for path in (ROOT / "examples" / folder).glob("*.py")
    ]

    assert [path for path in programs if f"({path})" not in page] == []


def test_agents_are_short():
    """
    An example is read in one go: at most 120 lines; the fake model may be longer.
    """
    programs = [path for path in FOLDER.glob("*.py") if path.name != "fake_model.py"]

    assert [p.name for p in programs if len(p.read_text("utf-8").splitlines()) > 120] == []
