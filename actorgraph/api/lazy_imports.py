"""Lazy imports: the names of `import actorgraph`, each imported at its first use."""

_NAMES = {
    "actorgraph": "channels messages",
    "actorgraph.api.functional.entrypoints": "entrypoint",
    "actorgraph.api.functional.task_functions": "TaskFunction task",
    "actorgraph.api.graph.compiled": "CompiledStateGraph",
    "actorgraph.api.graph.drawable": "DrawableGraph",
    "actorgraph.api.graph.pregel": "NodeBuilder Pregel",
    "actorgraph.api.graph.state_graph": "StateGraph",
    "actorgraph.api.savers.wrappers.audit": "AuditHead AuditLog AuditedSaver verify_audit_log",
    "actorgraph.api.savers.wrappers.guard": "GuardedSaver",
    "actorgraph.api.savers.wrappers.metered": "MeteredSaver SaverCall",
    "actorgraph.api.savers.wrappers.retries": "RetryingSaver",
    "actorgraph.api.savers.wrappers.size_limits": "LimitedSaver",
    "actorgraph.api.savers.wrappers.wrapped": "acting_as current_principal",
    "actorgraph.api.savers.base_saver": """
        BaseCheckpointSaver create_checkpoint empty_checkpoint get_checkpoint_id uuid6
    """,
    "actorgraph.api.savers.foreign": "ForeignSaver",
    "actorgraph.api.savers.hosted": "InMemorySaver MemorySaver",
    "actorgraph.api.savers.jsonl": "JsonlSaver",
    "actorgraph.api.savers.postgres": "AsyncPostgresSaver PostgresSaver",
    "actorgraph.api.savers.simple": "SimpleCheckpoint SimpleSaver",
    "actorgraph.api.savers.sqlite": "AsyncSqliteSaver SqliteSaver",
    "actorgraph.api.streams.events": "ProtocolEvent StreamChannel StreamTransformer",
    "actorgraph.api.streams.message_streams": """
        AsyncMessageStream MessageStream MessagesTransformer push_message
    """,
    "actorgraph.api.streams.projections": """
        CheckpointsTransformer CustomTransformer DebugTransformer LifecyclePayload
        LifecycleTransformer SubgraphStatus TasksTransformer UpdatesTransformer ValuesTransformer
    """,
    "actorgraph.api.streams.run_stream": """
        AsyncGraphRunStream AsyncSubgraphRunStream GraphRunStream SubgraphRunStream
        SubgraphTransformer
    """,
    "actorgraph.api.system.run_handle": "Run",
    "actorgraph.api.system.system": "ActorSystem",
    "actorgraph.api.thread_ids": "new_thread_id parse_thread_id thread_id_for",
    "actorgraph.caches": "BaseCache FullKey InMemoryCache SqliteCache",
    "actorgraph.codec": """
        AesCipher CipherProtocol Codec EncryptedSerializer SerdeEvent SerializerProtocol
        register_serde_event_listener
    """,
    "actorgraph.errors": """
        ActorGraphError ActorGraphWarning AlreadyResumed CacheWarning CheckpointError
        CompiledGraphWarning ConflictError EmptyChannelError EmptyInputError EncryptionError
        ErrorCode ForeignSaverWarning FormatVersionError GraphBubbleUp GraphBuildError
        GraphDrained GraphInterrupt GraphRecursionError InvalidConfigError InvalidContextError
        InvalidResumeError InvalidUpdateError LeaseLostError LostErrorWarning MissingExtraError
        MissingNodeError NodeCancelledError NodeError NodeTimeoutError NotSupportedError
        ParentCommand ResultTimeoutError RunCancelledError RunFailedError RunNotFoundError
        RunningLoopError SaverClosedError SaverRequiredError SchemaMismatchError
        SerializationError SlowReaderError StepTimeoutError StorageError StoreRequiredError
        SwallowedInterruptWarning SystemBusyError SystemClosedError ThreadBusyError
        UnknownChannelWarning UnknownInterruptError UnknownTargetError UnknownTypeError
        UnreachableNodeWarning
    """,
    "actorgraph.messages": "MessagesState REMOVE_ALL_MESSAGES RemoveMessage add_messages",
    "actorgraph.plan.channel_graph": "ChannelWriteEntry",
    "actorgraph.plan.schema": "IsLastStep RemainingSteps",
    "actorgraph.ports": "Checkpointer",
    "actorgraph.runtime.run.callbacks": """
        GraphCallbackHandler GraphInterruptEvent GraphLifecycleEvent GraphResumeEvent
    """,
    "actorgraph.runtime.task.functions": """
        astep get_idempotency_key get_runtime get_store interrupt step
    """,
    "actorgraph.runtime.task.futures": "TaskFuture",
    "actorgraph.runtime.task.messages": "get_message_writer",
    "actorgraph.runtime.task.runtime": "Runtime",
    "actorgraph.runtime.task.timed_questions": "sleep sleep_until",
    "actorgraph.runtime.task.scope": "get_config get_stream_writer",
    "actorgraph.values.checkpoint": """
        ChannelVersions Checkpoint CheckpointConfig CheckpointMetadata CheckpointSource
        CheckpointSummary CheckpointTuple Latest Migration ResumeTarget
    """,
    "actorgraph.values.commands": """
        Command GraphOutput Interrupt NodeInterrupt Overwrite RunControl Send StateUpdate
        is_invalid_resume
    """,
    "actorgraph.values.constants": "END START TAG_HIDDEN TAG_NOSTREAM",
    "actorgraph.values.policies": """
        All CachePolicy Durability RetryPolicy StreamMode TimeoutPolicy TracePolicy
        default_retry_on omit_payload
    """,
    "actorgraph.values.run": "ExecutionInfo ServerInfo",
    "actorgraph.values.state_snapshot": "PregelTask StateSnapshot",
    "actorgraph.values.version": "__version__",
    "actorgraph.values.stream_items": """
        CheckpointPayload CheckpointStreamPart CustomStreamPart DebugPayload DebugStreamPart
        MessagesStreamPart StreamPart StreamWriter TaskPayload TaskResultPayload TasksStreamPart
        UpdatesStreamPart ValuesStreamPart
    """,
    "actorgraph.values.systems": "RunEvent",
}
"""Module -> its names that `from actorgraph import` finds."""

LAZY_IMPORTS = {name: module for module, names in _NAMES.items() for name in names.split()}
"""Name -> the module that has it."""
