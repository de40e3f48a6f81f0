"""Names that packages import through the layer, in processes of their own."""

import subprocess
import sys

from tests.support.source_files import ROOT


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has installed the layer."""
    text = f"import actorgraph.compat; actorgraph.compat.install()\n{program}"
    words = [sys.executable, "-c", text]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


class TestSupervisor:
    def test_its_names_of_the_agents_module_are_there(self):
        """
        langgraph-supervisor imports the types of create_react_agent's arguments, and a helper.
        """
        done = run(
            "from langgraph.prebuilt.chat_agent_executor import (AgentState, Prompt,"
            " AgentStateWithStructuredResponse, StateSchemaType, StructuredResponseSchema,"
            " _should_bind_tools, create_react_agent)\n"
            "print(_should_bind_tools(object(), []))"
        )

        assert (done.stdout, done.stderr) == ("True\n", "")
