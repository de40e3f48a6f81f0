"""The port of bridges: hooks do nothing of their own, and a bridge's functions fit them."""

import inspect
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

from actorgraph import bridging
from actorgraph.bridges import HOOKS
from actorgraph.bridging import Bridge, register

PLACES = [(module, hook) for module, hooks in HOOKS.items() for hook in hooks.split()]

PROGRAM = """
import operator, sys
from typing import Annotated, Any, TypedDict
{first}
from actorgraph import Command, InMemorySaver, Send, StateGraph, interrupt
from actorgraph.messages import MessagesState
from actorgraph.prebuilt import ToolNode

class State(MessagesState):
    total: Annotated[int, operator.add]

def ask(state: State) -> Any:
    return Command(update={{"total": interrupt("how many?")}}, goto=[Send("say", state)])

def say(state: State) -> Any:
    return {{"total": 1, "messages": [("ai", "done")]}}

async def part(state: State) -> Any:
    raise ValueError("no")

b = StateGraph(State).add_node("ask", ask, destinations=("say",)).add_node("say", say)
b.add_node("tools", ToolNode([len])).add_edge("__start__", "ask").set_finish_point("say")
graph = b.compile(checkpointer=InMemorySaver())
at = {{"configurable": {{"thread_id": "t"}}}}
graph.invoke({{"total": 0, "messages": [("user", "hi")]}}, at)
made = graph.invoke(Command(resume=2), at)
for chunk in graph.stream({{"total": 0}}, at, stream_mode=["messages", "updates"]): pass
try: StateGraph(State).add_node("part", part).add_edge("__start__", "part").compile().invoke(made)
except ValueError as error: print(error.args[0], made["total"], len(made["messages"]))
others = ("langchain_core", "langgraph", "langsmith")
print([n for n in sys.modules if n.split(".")[0] in others or n.endswith(".library_tasks")])
"""


def output_of(program: str) -> str:
    """Run a program in a new process."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return ran.stdout.decode()


@pytest.fixture
def hooks(monkeypatch):
    """The port without a bridge, as long as the test lasts."""
    fresh = Bridge()
    monkeypatch.setattr(bridging, "BRIDGE", fresh)
    return fresh


class TestHooks:
    @pytest.mark.parametrize(("module", "hook"), PLACES)
    def test_a_bridges_function_takes_what_its_hook_takes(self, module, hook):
        """
        The function of each hook exists, has the hook's parameters, and is async if that is.
        """
        function = getattr(import_module(f"actorgraph.bridges.{module}"), hook)
        asked = getattr(Bridge, hook)
        wanted = [name for name in inspect.signature(asked).parameters if name != "self"]

        assert [*inspect.signature(function).parameters] == wanted
        assert inspect.iscoroutinefunction(function) == inspect.iscoroutinefunction(asked)

    def test_every_hook_has_a_function(self):
        """
        The room answers for each method of the port.
        """
        methods = {name for name, held in vars(Bridge).items() if inspect.isfunction(held)}

        assert {hook for _, hook in PLACES} == methods

    def test_a_function_is_imported_at_the_first_call(self, hooks, tmp_path, monkeypatch):
        """
        A registration imports nothing; the first call does, and later calls go there at once.
        """
        (tmp_path / "own_bridge.py").write_text("def adapt(thing):\n    return [thing]\n")
        monkeypatch.syspath_prepend(tmp_path)
        register({"adapt": "own_bridge:adapt"})
        before = "own_bridge" in sys.modules

        made = hooks.adapt(1)

        assert (before, made) == (False, [1])
        assert hooks.adapt is sys.modules.pop("own_bridge").adapt

    def test_the_last_registration_counts(self, hooks):
        """
        A hook has one function, an attribute one value: those that were registered last.
        """
        register({"adapt": "builtins:str"}, calls_module="a")
        register({"adapt": "builtins:repr"}, calls_module="b")

        assert (hooks.adapt("x"), hooks.calls_module) == ("'x'", "b")

    @pytest.mark.parametrize("wrong", [({"adopt": "builtins:str"}, {}), ({}, {"module": "a"})])
    def test_an_unknown_hook_is_refused(self, hooks, wrong: Any):
        """
        A misspelled hook or attribute is an error, and nothing is registered.
        """
        places, facts = wrong

        with pytest.raises(AttributeError):
            register({**places, "messages": "builtins:str"}, **facts)

        assert vars(hooks) == {}


class TestLaziness:
    def test_no_library_is_imported_before_the_program_does_it(self):
        """
        Messages, questions, Sends, tools, streams and failures import neither library, nor the
        part of a bridge that is for errors: one is handled where a file can't be opened any more.
        """
        assert output_of(PROGRAM.format(first="")).splitlines() == ["no 3 2", "[]"]

    def test_the_core_runs_without_a_bridge(self):
        """
        Without a registered function the same program does the same, also beside LangChain.
        """
        first = (
            "import langchain_core.runnables, langgraph.types\n"
            "from actorgraph.bridging import BRIDGE\nvars(BRIDGE).clear()"
        )

        assert output_of(PROGRAM.format(first=first)).splitlines()[0] == "no 3 2"
