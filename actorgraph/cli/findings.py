"""The findings of the codemod: places that a person has to change, and notes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to do by hand, or to know.

    Attributes:
        line: of the file, from 1.
        text: the finding.
        do: the replacement; "" if the text says it.
        is_note: whether the program works unchanged, so that nothing is left to do.
    """

    line: int
    text: str
    do: str = ""
    is_note: bool = False


COMPAT = (
    "put `import actorgraph.compat; actorgraph.compat.install()` before its first import, or "
    "start the program with `python -m actorgraph.compat PROGRAM.py`"
)
"""The advice about code that imports LangGraph itself."""

REPLACED = {
    "Graph": "StateGraph(dict)",
    "MessageGraph": "StateGraph(MessagesState)",
    "CompiledGraph": "CompiledStateGraph",
    "ToolExecutor": "ToolNode",
    "ToolInvocation": "a tool call of a message, which ToolNode runs",
    "create_function_calling_executor": "create_react_agent",
    "chat_agent_executor": "from actorgraph.prebuilt import create_react_agent",
    "add_messages_delta": "add_messages",
    "CONF": 'the key "configurable"',
    "Checkpoint": "actorgraph.Checkpoint",
    "StreamingHandler": "graph.stream_events(input, version='v3') or graph.stream(...)",
    "TaskNotFound": "the error of the task itself",
    "create_error_message": "the text of the error",
    "RemoteGraph": "langgraph_sdk's client",
}
"""Name of LangGraph's that has no equivalent of that name -> what to use."""

PACKAGES = frozenset(
    """
    langchain.agents langgraph_supervisor langgraph_swarm langgraph_bigtool langgraph_codeact
    langgraph_reflection langgraph_cua langgraph_api langmem deepagents copilotkit
    ag_ui_langgraph
    """.split()  # noqa: SIM905 - shorter to read than a list
)
"""Packages that make graphs of LangGraph's, or take them."""

FOREIGN = ("langgraph.checkpoint.", "langgraph.store.", "langgraph.cache.")
"""Modules below which other projects publish savers, stores and caches of LangGraph's interface."""


def without_home(module: str, name: str) -> Remark:
    """Report a name that has no equivalent here; its line is set by the caller."""
    what = "all names" if name == "*" else repr(name)
    text = f"{what} of {module} has no equivalent in actorgraph"
    if name == "*":
        return Remark(0, text, "import the names that the program uses")
    if name in REPLACED:
        return Remark(0, text, f"use {REPLACED[name]}")
    if any(part.startswith("_") for part in (*module.split("."), name)):
        return Remark(0, text, f"it is private to LangGraph; without another way, {COMPAT}")
    if module.startswith(FOREIGN):
        text = f"{name!r} of {module} keeps its import"
        return Remark(0, text, "nothing: compile() takes objects of this interface", is_note=True)
    return Remark(0, text, COMPAT)
