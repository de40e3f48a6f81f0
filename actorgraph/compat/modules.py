"""The modules of LangGraph 1.2 that the layer answers for: module -> name -> its home here.

Public names that the codemod moves too are in `cli/name_map.py`: look there first. Here are the
rest: what only packages import, and private names, each with the packages that need it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from actorgraph.cli.name_map import NAMES

_PARTS = "actorgraph.compat.parts"


@dataclass(frozen=True, slots=True)
class PrivateName:
    """Names of a private module of LangGraph that published packages import.

    Attributes:
        module: LangGraph's module.
        names: name -> its home here.
        needed_by: the packages.
    """

    module: str
    names: Mapping[str, str]
    needed_by: str


def _at(module: str, names: str) -> dict[str, str]:
    """Map each name to its dotted name here; `old=new` for one with another name here."""
    pairs = (name.partition("=") for name in names.split())
    return {old: f"{module}.{new or old}" for old, _, new in pairs}


_RUNNABLES = _at(f"{_PARTS}.runnables", "RunnableCallable RunnableLike")
_CONFIGS = _at(f"{_PARTS}.config_functions", "get_config ensure_config patch_configurable")
_TYPING = _at(
    f"{_PARTS}.type_variables", "StateT StateT_co StateT_contra InputT OutputT ContextT NodeInputT"
)
_SAVERS = _at(
    f"{_PARTS}.saver_names",
    """
    WRITES_IDX_MAP get_checkpoint_metadata get_serializable_checkpoint_metadata
    writes_sort_key EXCLUDED_METADATA_KEYS LATEST_VERSION V RunnableConfig
    ERROR INTERRUPT RESUME SCHEDULED ChannelProtocol
    """,
)
_SERIALIZERS = _at(
    f"{_PARTS}.json_plus",
    "UntypedSerializerProtocol SerializerCompat maybe_add_typed_methods",
)
_JSON_PLUS = _at(f"{_PARTS}.json_plus", "JsonPlusSerializer InvalidModuleError")
_STORES = _at(
    f"{_PARTS}.store_names",
    """
    validate_op_namespace _ensure_ttl=ensure_ttl _ensure_refresh=ensure_refresh
    _validate_namespace=validate_namespace _validate_namespace_labels=validate_namespace_labels
    """,
)
_CONSTANTS = _at(
    f"{_PARTS}.config_keys",
    """
    CONF CONFIG_KEY_READ CONFIG_KEY_READ_STATE CONFIG_KEY_SEND CONFIG_KEY_RUNTIME
    CONFIG_KEY_THREAD_ID CONFIG_KEY_CHECKPOINT_ID CONFIG_KEY_CHECKPOINT_NS CONFIG_KEY_CHECKPOINT_MAP
    """,
) | _at(
    "actorgraph.values.constants",
    """
    ERROR INPUT INTERRUPT NO_WRITES NS_END=NAMESPACE_END NS_SEP=NAMESPACE_SEPARATOR
    NULL_TASK_ID=NULL_TASK PREVIOUS PULL PUSH RESUME RETURN TASKS
    """,
)
_TOOL_NODE = _at(
    f"{_PARTS}.langchain_tools",
    """
    ToolNode=LangChainToolNode tools_condition InjectedState InjectedStore ToolRuntime
    ToolCallRequest ToolCallWithContext ToolCallWrapper AsyncToolCallWrapper
    ToolInvocationError ToolCallTransformer msg_content_output
    """,
)
_AGENTS = _at(f"{_PARTS}.agents", "create_react_agent")
_TEMPLATES = _at(
    "actorgraph.prebuilt.tool_results",
    """
    INVALID_TOOL_NAME_ERROR_TEMPLATE TOOL_CALL_ERROR_TEMPLATE TOOL_INVOCATION_ERROR_TEMPLATE
    """,
)

PRIVATE: Final = (
    PrivateName("langgraph._internal._runnable", _RUNNABLES, "langchain, langgraph-supervisor"),
    PrivateName("langgraph._internal._config", _CONFIGS, "langgraph-supervisor"),
    PrivateName(
        "langgraph._internal._constants",
        _CONSTANTS,
        "deepagents, langmem, own agents",
    ),
    PrivateName(
        "langgraph._internal._typing",
        _at(f"{_PARTS}.type_variables", "DeprecatedKwargs StateLike MISSING=UNSET"),
        "langgraph-supervisor, langgraph-swarm",
    ),
    PrivateName(
        "langgraph.stream._types",
        _at("actorgraph", "ProtocolEvent StreamTransformer"),
        "langchain, langchain-core",
    ),
    PrivateName(
        "langgraph.stream.transformers",
        _at(f"{_PARTS}.task_transformers", "_TasksLifecycleBase=TasksLifecycleBase"),
        "langchain",
    ),
    PrivateName(
        "langgraph.stream._mux",
        _at("actorgraph.api.streams.events", "StreamMux TransformerFactory"),
        "langchain",
    ),
    PrivateName(
        "langgraph.prebuilt._tool_call_stream",
        _at("actorgraph.prebuilt", "ToolCallStream"),
        "langchain's tests",
    ),
    PrivateName(
        "langgraph.prebuilt._tool_call_transformer",
        _at("actorgraph.prebuilt", "ToolCallTransformer"),
        "langchain",
    ),
    PrivateName(
        "langgraph.prebuilt.tool_node",
        _at("actorgraph.prebuilt.tool_results", "_infer_handled_types=handled_types"),
        "langgraph-prebuilt's tests",
    ),
    PrivateName(
        "langgraph.prebuilt.chat_agent_executor",
        _at("actorgraph.prebuilt.models", "_should_bind_tools=needs_tools")
        | _at(
            f"{_PARTS}.agents",
            """
            _get_prompt_runnable=get_prompt_runnable _get_state_value=get_state_value
            _validate_chat_history=validate_chat_history _get_model=get_model
            """,
        ),
        "langgraph-supervisor, own agents made from create_react_agent",
    ),
    PrivateName(
        "langgraph.graph._node",
        _at("actorgraph.plan.builder", "StateNodeSpec=NodeSpec")
        | _at(f"{_PARTS}.graph_names", "StateNode"),
        "langchain-decorators, for annotations and checks",
    ),
    PrivateName(
        "langgraph.graph._branch",
        _at("actorgraph.plan.builder", "BranchSpec") | _at("actorgraph", "Send"),
        "own tools, for annotations and checks",
    ),
    PrivateName(
        "langgraph.pregel._read",
        _at("actorgraph.plan.plan", "PregelNode=NodePlan"),
        "dapr-ext-langgraph, for checks of `graph.nodes`",
    ),
    PrivateName(
        "langgraph.checkpoint.serde._msgpack",
        _at(f"{_PARTS}.json_plus", "AllowedMsgpackModules"),
        "langgraph-checkpoint-sqlite",
    ),
    PrivateName(
        "langgraph.pregel._checkpoint",
        _at(f"{_PARTS}.checkpoint_functions", "copy_checkpoint")
        | _at("actorgraph", "create_checkpoint empty_checkpoint"),
        "langchain's tests",
    ),
)
"""Private names that are here, and why."""

_PUBLIC: Final[Mapping[str, Mapping[str, str]]] = {
    "langgraph": {},
    "langgraph.utils": {},
    "langgraph.utils.config": _CONFIGS | _at("actorgraph", "get_store"),
    "langgraph.utils.runnable": _RUNNABLES,
    "langgraph.checkpoint": {},
    "langgraph.checkpoint.serde": {},
    "langgraph.checkpoint.serde.event_hooks": _at(
        "actorgraph", "SerdeEvent register_serde_event_listener"
    ),
    "langgraph.checkpoint.base": _SAVERS
    | _SERIALIZERS
    | _JSON_PLUS
    | _at(f"{_PARTS}.checkpoint_functions", "copy_checkpoint")
    | _at("actorgraph.api.savers.checkpoint_methods", "DeltaChannelHistory PendingWrite")
    | _at("actorgraph", "EmptyChannelError EncryptedSerializer uuid6"),
    "langgraph.checkpoint.base.id": _at("uuid", "UUID"),
    "langgraph.checkpoint.serde.base": _SERIALIZERS,
    "langgraph.checkpoint.serde.jsonplus": _JSON_PLUS,
    "langgraph.checkpoint.serde.types": _at(
        f"{_PARTS}.saver_names",
        """
        ERROR INTERRUPT RESUME SCHEDULED TASKS ChannelProtocol SendProtocol Value Update C
        _DeltaSnapshot=DeltaSnapshot
        """,
    ),
    "langgraph.checkpoint.memory": _at(f"{_PARTS}.checkpoint_functions", "PersistentDict"),
    "langgraph.store": {},
    "langgraph.store.base": _at(
        "actorgraph.stores",
        """
        NOT_PROVIDED NotProvided Op Result NamespacePath NamespaceMatchType Embeddings
        ensure_embeddings tokenize_path AEmbeddingsFunc EmbeddingsFunc
        """,
    )
    | _STORES,
    "langgraph.store.base.embed": _at(
        "actorgraph.stores",
        "Embeddings ensure_embeddings get_text_at_path tokenize_path EmbeddingsFunc "
        "AEmbeddingsFunc",
    ),
    "langgraph.cache": {},
    "langgraph.cache.base": _at("actorgraph.caches.base", "Namespace ValueT"),
    "langgraph.func": _at(f"{_PARTS}.wrapped_runs", "Pregel=WrappablePregel"),
    "langgraph.config": _at(f"{_PARTS}.config_functions", "get_config"),
    "langgraph.constants": _at(f"{_PARTS}.config_keys", "CONF")
    | _at("actorgraph.values.constants", "TASKS"),
    "langgraph.graph.ui": _at(
        f"{_PARTS}.ui",
        "UIMessage RemoveUIMessage AnyUIMessage push_ui_message delete_ui_message "
        "ui_message_reducer",
    ),
    "langgraph.managed.base": _at(f"{_PARTS}.managed", "ManagedValueSpec ManagedValueMapping"),
    "langgraph.managed.is_last_step": _at(f"{_PARTS}.managed", "RemainingStepsManager"),
    "langgraph.store.postgres.base": _at("actorgraph.stores", "PostgresStore"),
    "langgraph.store.sqlite.base": _at("actorgraph.stores", "SqliteStore"),
    "langgraph.graph": _at(f"{_PARTS}.deprecated_graphs", "MessageGraph"),
    "langgraph.graph.message": _at(f"{_PARTS}.deprecated_graphs", "MessageGraph")
    | _at(f"{_PARTS}.graph_names", "Messages")
    | _at("langchain_core.messages", "AnyMessage"),
    "langgraph.graph.state": _at(f"{_PARTS}.graph_names", "StateNode"),
    "langgraph.pregel": _at(f"{_PARTS}.wrapped_runs", "Pregel=WrappablePregel"),
    "langgraph.pregel.main": _at(f"{_PARTS}.wrapped_runs", "Pregel=WrappablePregel"),
    "langgraph.pregel.protocol": _at(
        "actorgraph.api.graph.graph_settings", "PregelProtocol=GraphSettings"
    ),
    "langgraph.pregel.debug": _at("actorgraph", "CheckpointPayload TaskPayload TaskResultPayload"),
    "langgraph.pregel.remote": _at(f"{_PARTS}.remote", "RemoteGraph RemoteException"),
    "langgraph.prebuilt": _TOOL_NODE | _AGENTS,
    "langgraph.prebuilt.tool_node": _TOOL_NODE | _TEMPLATES,
    "langgraph.prebuilt.chat_agent_executor": _at(
        f"{_PARTS}.agents",
        "Prompt StateSchema StateSchemaType StructuredResponse StructuredResponseSchema "
        "create_tool_calling_executor=create_react_agent",
    )
    | _AGENTS,
    "langgraph.runtime": _at(f"{_PARTS}.managed", "BaseUser")
    | _at(f"{_PARTS}.config_keys", "CONF CONFIG_KEY_RUNTIME")
    | _at(f"{_PARTS}.graph_names", "DEFAULT_RUNTIME"),
    "langgraph.types": _at(f"{_PARTS}.checkpoint_functions", "ensure_valid_checkpointer"),
    "langgraph.typing": _TYPING,
    "langgraph.version": _at(f"{_PARTS}.versions", "__version__"),
    "langgraph.warnings": _at(
        f"{_PARTS}.versions",
        """
        LangGraphDeprecationWarning LangGraphDeprecatedSinceV05 LangGraphDeprecatedSinceV10
        LangGraphDeprecatedSinceV11
        """,
    ),
}


_LOOP = "it belongs to LangGraph's own loop; read states by get_state() and stream_mode='debug'"
_SERVER = "LangGraph's server needs it for LangGraph's own loop; serve graphs by docs/web.md"
_SAVER = "it is for authors of LangGraph's savers; docs/own-savers.md shows how to write one here"
_SHALLOW = "use PostgresSaver, and keep few checkpoints: docs/operations.md, retention"
_SETTINGS = "search here needs no such settings; see docs/stores.md"
_TYPE_VARIABLE = "it is a type variable of LangGraph's own code; make one"

ABSENT: Final[Mapping[str, str]] = {
    "langgraph._internal._config.patch_config": _SERVER,
    "langgraph._internal._constants": _LOOP,
    "langgraph._internal._constants.CONFIG_KEY_SCRATCHPAD": "call interrupt(), which counts itself",
    "langgraph._internal._scratchpad": _SERVER,
    "langgraph.cache.redis": "pass an InMemoryCache, a SqliteCache, or a BaseCache of your own",
    "langgraph.callbacks.GraphLifecycleStatus": "compare with the text itself",
    "langgraph.callbacks.get_async_graph_callback_manager_for_config": _LOOP,
    "langgraph.callbacks.get_sync_graph_callback_manager_for_config": _LOOP,
    "langgraph.checkpoint.postgres.Conn": _SAVER,
    "langgraph.checkpoint.postgres.aio.Conn": _SAVER,
    "langgraph.checkpoint.postgres.BasePostgresSaver": "use PostgresSaver",
    "langgraph.checkpoint.postgres.base": "use PostgresSaver",
    "langgraph.checkpoint.postgres.ShallowPostgresSaver": _SHALLOW,
    "langgraph.checkpoint.postgres.aio.AsyncShallowPostgresSaver": _SHALLOW,
    "langgraph.checkpoint.postgres.shallow": _SHALLOW,
    "langgraph.checkpoint.serde.event_hooks.emit_serde_event": "the codec emits them itself",
    "langgraph.checkpoint.serde.jsonplus.EXT_DELTA_SNAPSHOT": _SERVER,
    "langgraph.checkpoint.serde.jsonplus._msgpack_ext_hook_to_json": _SERVER,
    "langgraph.checkpoint.sqlite.aio.T": _TYPE_VARIABLE,
    "langgraph.checkpoint.sqlite.utils": _SAVER,
    "langgraph.constants.CONFIG_KEY_CHECKPOINTER": _LOOP,
    "langgraph.constants.CONFIG_KEY_STORE": "call get_store(), or declare `runtime` in the node",
    "langgraph.errors.TaskNotFound": "LangGraph's server raises it; here it is RunNotFoundError",
    "langgraph.prebuilt.tool_node.StateT": _TYPE_VARIABLE,
    "langgraph.prebuilt.tool_node.ContextT": _TYPE_VARIABLE,
    "langgraph.pregel._algo": _SERVER,
    "langgraph.pregel._call": _SERVER,
    "langgraph.pregel._write.ChannelWrite": "return the writes from the node",
    "langgraph.pregel.algo": _SERVER,
    "langgraph.pregel.debug": _LOOP,
    "langgraph.pregel.protocol.StreamProtocol": _LOOP,
    "langgraph.pregel.read": _SERVER,
    "langgraph.pregel.types.PregelExecutableTask": _LOOP,
    "langgraph.types.PregelExecutableTask": _LOOP,
    "langgraph.types.CheckpointTask": _LOOP,
    "langgraph.store.base.batch.F": _TYPE_VARIABLE,
    "langgraph.store.postgres.PoolConfig": "pass a psycopg pool, or a URL",
    "langgraph.store.postgres.base": _SETTINGS,
    "langgraph.store.sqlite.base": _SETTINGS,
    "langgraph.stream.stream_channel.T": _TYPE_VARIABLE,
}
"""Modules and names that the layer lacks -> the way out. A module's entry is for all of its names
that aren't in the table."""


def _table() -> dict[str, dict[str, str]]:
    """Join the tables, and add the packages above each module."""
    table: dict[str, dict[str, str]] = {}
    private = {row.module: row.names for row in PRIVATE}
    for part in (NAMES, _PUBLIC, private):
        for module, names in part.items():
            table.setdefault(module, {}).update(names)
    for module in [*table]:
        parts = module.split(".")
        for count in range(1, len(parts)):
            table.setdefault(".".join(parts[:count]), {})
    return table


MODULES: Final[Mapping[str, Mapping[str, str]]] = _table()
"""Module of LangGraph -> name -> its dotted name here."""
