"""The equivalent of each LangGraph name here: data for the codemod and the migration guide."""

from collections.abc import Mapping

TOP = "actorgraph"


def _at(module: str, names: str) -> dict[str, str]:
    """Map each name to its dotted name here; `old=new` for one with another name here."""
    pairs = (name.partition("=") for name in names.split())
    return {old: f"{module}.{new or old}" for old, _, new in pairs}


_GRAPH = _at(TOP, "StateGraph CompiledStateGraph START END")
_MESSAGE = _at(TOP, "MessagesState add_messages push_message RemoveMessage REMOVE_ALL_MESSAGES")
_TYPES = _at(
    TOP,
    """
    All CachePolicy CheckpointPayload CheckpointStreamPart Checkpointer Command
    CustomStreamPart DebugPayload DebugStreamPart Durability GraphOutput Interrupt
    MessagesStreamPart Overwrite PregelTask RetryPolicy Send StateSnapshot StateUpdate
    StreamMode StreamPart StreamWriter TaskPayload TaskResultPayload TasksStreamPart
    TimeoutPolicy TracePolicy UpdatesStreamPart ValuesStreamPart interrupt default_retry_on
    omit_payload
    """,
)
_PREGEL = _at(TOP, "Pregel NodeBuilder")
_CHANNELS = _at(
    f"{TOP}.channels",
    """
    AnyValue BaseChannel BinaryOperatorAggregate DeltaChannel EphemeralValue LastValue
    LastValueAfterFinish NamedBarrierValue NamedBarrierValueAfterFinish Topic UntrackedValue
    """,
)
_SAVER_BASE = _at(
    TOP,
    """
    BaseCheckpointSaver Checkpoint CheckpointMetadata CheckpointTuple ChannelVersions
    SerializerProtocol empty_checkpoint create_checkpoint get_checkpoint_id
    """,
)
_STORE = _at(
    f"{TOP}.stores",
    """
    BaseStore Item SearchItem GetOp PutOp SearchOp ListNamespacesOp MatchCondition TTLConfig
    IndexConfig InvalidNamespaceError AsyncBatchedBaseStore get_text_at_path
    """,
)
_STREAM = _at(
    TOP,
    """
    AsyncGraphRunStream AsyncSubgraphRunStream CheckpointsTransformer CustomTransformer
    DebugTransformer GraphRunStream LifecyclePayload LifecycleTransformer MessagesTransformer
    ProtocolEvent StreamChannel StreamTransformer SubgraphRunStream SubgraphStatus
    SubgraphTransformer TasksTransformer UpdatesTransformer ValuesTransformer
    """,
)
_TOOLS = _at(
    f"{TOP}.prebuilt",
    """
    ToolNode tools_condition InjectedState InjectedStore ToolRuntime ToolCallRequest
    ToolCallTransformer ToolInvocationError
    """,
)
_AGENT = _at(
    f"{TOP}.prebuilt",
    """
    create_react_agent create_tool_calling_executor=create_react_agent
    AgentState AgentStatePydantic AgentStateWithStructuredResponse
    AgentStateWithStructuredResponsePydantic
    """,
)
_HUMAN = _at(f"{TOP}.prebuilt", "ActionRequest HumanInterrupt HumanInterruptConfig HumanResponse")
_VALIDATION = _at(f"{TOP}.prebuilt", "ValidationNode")
_SQLITE = _at(TOP, "SqliteSaver AsyncSqliteSaver")
_POSTGRES = _at(TOP, "PostgresSaver AsyncPostgresSaver")

NAMES: Mapping[str, Mapping[str, str]] = {
    "langgraph.graph": _GRAPH | _MESSAGE,
    "langgraph.graph.state": _GRAPH,
    "langgraph.graph.graph": _GRAPH,
    "langgraph.graph.message": _MESSAGE | _at(f"{TOP}.messages", "_messages_delta_reducer"),
    "langgraph.types": _TYPES,
    "langgraph.pregel.types": _TYPES,
    "langgraph.constants": _at(TOP, "START END TAG_HIDDEN TAG_NOSTREAM Send Interrupt"),
    "langgraph.func": _at(TOP, "entrypoint task"),
    "langgraph.pregel": _PREGEL,
    "langgraph.pregel.main": _PREGEL,
    "langgraph.pregel._write": _at(TOP, "ChannelWriteEntry"),
    "langgraph.channels": _CHANNELS,
    "langgraph.channels.any_value": _CHANNELS,
    "langgraph.channels.base": _CHANNELS,
    "langgraph.channels.binop": _CHANNELS,
    "langgraph.channels.delta": _CHANNELS,
    "langgraph.channels.ephemeral_value": _CHANNELS,
    "langgraph.channels.last_value": _CHANNELS,
    "langgraph.channels.named_barrier_value": _CHANNELS,
    "langgraph.channels.topic": _CHANNELS,
    "langgraph.channels.untracked_value": _CHANNELS,
    "langgraph.managed": _at(TOP, "IsLastStep RemainingSteps"),
    "langgraph.managed.is_last_step": _at(TOP, "IsLastStep RemainingSteps"),
    "langgraph.config": _at(TOP, "get_config get_store get_stream_writer"),
    "langgraph.runtime": _at(TOP, "Runtime get_runtime RunControl ExecutionInfo ServerInfo"),
    "langgraph.errors": _at(
        TOP,
        """
        GraphRecursionError InvalidUpdateError EmptyChannelError EmptyInputError GraphInterrupt
        NodeInterrupt GraphBubbleUp ParentCommand NodeError NodeTimeoutError
        NodeCancelledError GraphDrained UnknownInterruptError ErrorCode is_invalid_resume
        """,
    ),
    "langgraph.callbacks": _at(
        TOP, "GraphCallbackHandler GraphInterruptEvent GraphResumeEvent GraphLifecycleEvent"
    ),
    "langgraph.stream": _STREAM,
    "langgraph.stream._types": _at(TOP, "ProtocolEvent StreamTransformer"),
    "langgraph.utils.config": _at(TOP, "get_config get_store get_stream_writer"),
    "langgraph.stream.run_stream": _STREAM,
    "langgraph.stream.stream_channel": _STREAM,
    "langgraph.stream.transformers": _STREAM,
    "langgraph.checkpoint.base": _SAVER_BASE,
    "langgraph.checkpoint.base.id": _at(TOP, "uuid6"),
    "langgraph.checkpoint.memory": _at(TOP, "InMemorySaver MemorySaver"),
    "langgraph.checkpoint.sqlite": _SQLITE,
    "langgraph.checkpoint.sqlite.aio": _SQLITE,
    "langgraph.checkpoint.postgres": _POSTGRES,
    "langgraph.checkpoint.postgres.aio": _POSTGRES,
    "langgraph.checkpoint.serde.base": _at(TOP, "SerializerProtocol CipherProtocol"),
    "langgraph.checkpoint.serde.encrypted": _at(TOP, "EncryptedSerializer"),
    "langgraph.checkpoint.serde.jsonplus": _at(TOP, "JsonPlusSerializer=Codec"),
    "langgraph.store.base": _STORE,
    "langgraph.store.base.batch": _STORE,
    "langgraph.store.base.embed": _STORE,
    "langgraph.store.memory": _at(f"{TOP}.stores", "InMemoryStore"),
    "langgraph.store.sqlite": _at(f"{TOP}.stores", "SqliteStore AsyncSqliteStore"),
    "langgraph.store.sqlite.aio": _at(f"{TOP}.stores", "AsyncSqliteStore"),
    "langgraph.store.postgres": _at(f"{TOP}.stores", "PostgresStore AsyncPostgresStore"),
    "langgraph.store.postgres.aio": _at(f"{TOP}.stores", "AsyncPostgresStore"),
    "langgraph.cache.base": _at(TOP, "BaseCache FullKey"),
    "langgraph.cache.memory": _at(TOP, "InMemoryCache"),
    "langgraph.cache.sqlite": _at(TOP, "SqliteCache"),
    "langgraph.prebuilt": _TOOLS | _AGENT | _VALIDATION,
    "langgraph.prebuilt.tool_node": _TOOLS,
    "langgraph.prebuilt.chat_agent_executor": _AGENT,
    "langgraph.prebuilt.interrupt": _HUMAN,
    "langgraph.prebuilt.tool_validator": _VALIDATION,
}
"""LangGraph module -> name -> dotted name here."""
