"""The ways to LangGraph and LangChain, for programs that use them beside this library.

Everything that knows a class, a module or a habit of theirs is in this room, as a function for a
hook of `actorgraph.bridging`; the core calls the hooks and names neither library.

Neither is imported here. Most modules look for a library in `sys.modules` and do nothing without
it. The modules that import LangChain at their top are imported by those, once the program has
imported it, or asks for a Runnable or a model by name (docs/decisions/0208).
"""

from actorgraph.bridging import register

_ROOM = "actorgraph.bridges."


def register_bridges() -> None:
    """Let the functions of this room answer for the hooks of the core."""
    places = {hook: _ROOM + module for module, hooks in HOOKS.items() for hook in hooks.split()}
    register({hook: f"{place}:{hook}" for hook, place in places.items()}, **FACTS)


HOOKS = {
    "langgraph_values": "adapt adapt_input adapt_update adapt_pairs is_command holds_question",
    "langgraph_channels": "adapt_channel adapt_reducer adapt_manager",
    "library_nodes": "check_node adapt_parallel",
    "library_tasks": "wrap_node enter_task begin_run below_call check_pause"
    " translate_error is_control_flow",
    "library_messages": "messages whole_message is_manager is_handler feeds_events named_model"
    " named_embeddings",
    "library_tools": "mark_tools is_tool_method is_tool_default is_tool_runtime",
    "saver_objects": "adapt_serializer export default_serializer",
    "runnable": "loaded_runnable imported_runnable adopt_graphs borrowed as_runnable chain_events"
    " pydantic_model refused_by_pydantic",
    "langgraph_tasks": "export_tool_runtime",
    "langchain_tasks": "stream_models count_progress",
    "model_spans": "trace_models",
}
"""Module of this room -> the hooks that its functions of the same names answer for."""

FACTS = {
    "types_module": "langgraph.types",
    "calls_module": "langchain_core",
    "between": frozenset({"langchain_core", "langsmith"}),
    "unread": frozenset({"langgraph"}),
    "passes_on": ("langchain_core.", "langgraph."),
    "stored_types": frozenset(
        {
            "langchain_core.documents.base:Document",
            *(f"langgraph.store.base:{name}" for name in ("Item", "SearchItem", "GetOp")),
            *(f"langgraph.types:{name}" for name in ("Send", "TimeoutPolicy", "Interrupt")),
            *(f"langgraph.types:{name}" for name in ("Command", "StateSnapshot", "PregelTask")),
        }
    ),
    "refused_types": {
        "langgraph.types:Overwrite": "use the Overwrite of actorgraph.types: LangGraph's own is "
        "none to a channel of this library, and would become its value",
    },
    "message_types": "langchain_core.messages.",
    "wide_bases": frozenset({"langchain_core.load.serializable", "langchain_core.runnables.base"}),
    "data_modules": ("langchain_core.messages", "langchain_core.documents"),
    "data_types": frozenset({("langgraph.types", "Send"), ("langgraph.types", "Command")}),
    "class_modules": "langgraph.",
    "saver_module": "langgraph.checkpoint.base",
}
"""Facts that the core needs before it calls a hook: see the attributes of `Bridge`."""
