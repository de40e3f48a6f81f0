"""Names that authors of stores import from `langgraph.store.base`."""

from collections.abc import Mapping
from typing import Any

from actorgraph.stores import NOT_PROVIDED, GetOp, ListNamespacesOp, NotProvided, PutOp, SearchOp
from actorgraph.stores.operations import check_labels, check_namespace

validate_namespace = check_namespace
validate_namespace_labels = check_labels


def validate_op_namespace(op: Any) -> None:
    """Check the labels of an operation's namespaces.

    Raises:
        InvalidNamespaceError: one is empty, no text, or has a period.
    """
    if isinstance(op, GetOp | PutOp):
        check_labels(op.namespace)
    elif isinstance(op, SearchOp):
        check_labels(op.namespace_prefix)
    elif isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions or ():
            check_labels(condition.path)


def ensure_ttl(
    ttl_config: Mapping[str, Any] | None, ttl: float | NotProvided | None = NOT_PROVIDED
) -> float | None:
    """Return a put's minutes to live: its own, or the store's default."""
    if isinstance(ttl, NotProvided):
        return (ttl_config or {}).get("default_ttl")
    return ttl


def ensure_refresh(ttl_config: Mapping[str, Any] | None, refresh_ttl: bool | None = None) -> bool:
    """Return whether a read starts the time to live again: as asked, or the store's setting."""
    if refresh_ttl is not None:
        return refresh_ttl
    return (ttl_config or {}).get("refresh_on_read", True)
