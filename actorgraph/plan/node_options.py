"""Keyword arguments of `add_node`, for the signatures that type checkers and editors read."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from actorgraph.plan.node_policies import Retry
from actorgraph.values.policies import CachePolicy, TimeoutPolicy, TracePolicy


class NodeOptions(TypedDict, total=False):
    """Options of `add_node`, besides `input_schema`.

    Attributes:
        retry_policy: when to call the node again after an error, default never; of several, the
            first that matches the error counts.
        cache_policy: reuse an earlier result for the same input, from `compile(cache=)`.
        error_handler: a function like a node's, called with the same input when the node's last
            attempt has failed. Its parameter `error` gets the `NodeError`.
        timeout: seconds, a timedelta or a TimeoutPolicy for one attempt; async nodes only.
        max_concurrency: calls of this node that may run at once within one run; other runs are
            not counted. Default no limit.
        metadata: added to the payloads of the `tasks` stream.
        destinations: nodes to which its Commands may go, for checks; or each with a label.
        defer: run it only when no other node would run next and no Send is pending.
        trace_policy: what spans show of the node.
    """

    retry_policy: Retry
    cache_policy: CachePolicy[Any] | None
    error_handler: Callable[..., Any] | None
    timeout: float | timedelta | TimeoutPolicy | None
    max_concurrency: int | None
    metadata: Mapping[str, Any] | None
    destinations: Sequence[str] | Mapping[str, str] | None
    defer: bool
    trace_policy: TracePolicy | None
