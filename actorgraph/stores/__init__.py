"""Stores: long-term memory of graphs, across threads: JSON values by namespace and key."""

from actorgraph.stores.base import AsyncBatchedBaseStore, BaseStore
from actorgraph.stores.embedding import (
    AEmbeddingsFunc,
    Embeddings,
    EmbeddingsFunc,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)
from actorgraph.stores.errors import (
    EmbeddingError,
    InvalidNamespaceError,
    InvalidStoreOperationError,
    ItemValueError,
    StoreError,
    UnsupportedByStoreError,
)
from actorgraph.stores.memory import InMemoryStore
from actorgraph.stores.operations import (
    NOT_PROVIDED,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    NamespaceMatchType,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from actorgraph.stores.postgres.store import AsyncPostgresStore, PostgresStore
from actorgraph.stores.sqlite.store import AsyncSqliteStore, SqliteStore

__all__ = [
    "NOT_PROVIDED",
    "AEmbeddingsFunc",
    "AsyncBatchedBaseStore",
    "AsyncPostgresStore",
    "AsyncSqliteStore",
    "BaseStore",
    "EmbeddingError",
    "Embeddings",
    "EmbeddingsFunc",
    "GetOp",
    "InMemoryStore",
    "IndexConfig",
    "InvalidNamespaceError",
    "InvalidStoreOperationError",
    "Item",
    "ItemValueError",
    "ListNamespacesOp",
    "MatchCondition",
    "Namespace",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PostgresStore",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "SqliteStore",
    "StoreError",
    "TTLConfig",
    "UnsupportedByStoreError",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
]
