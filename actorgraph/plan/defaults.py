"""The default policies of `set_node_defaults`, and how they are filled in."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from actorgraph.plan import calls, policies
from actorgraph.values.node_policies import CachePolicy, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from actorgraph.plan.builder import NodeSpec


@dataclass(frozen=True, slots=True)
class NodeDefaults:
    """The policies of nodes that have none of their own; () or None for no default."""

    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy[Any] | None = None
    handler: Callable[..., Any] | None = None
    timeout: TimeoutPolicy | None = None

    def over(self, before: "NodeDefaults") -> "NodeDefaults":
        """Fill in the defaults set before where these have none."""
        return NodeDefaults(
            self.retry or before.retry,
            self.cache or before.cache,
            self.handler or before.handler,
            self.timeout or before.timeout,
        )


def with_defaults(spec: "NodeSpec", defaults: NodeDefaults) -> "NodeSpec":
    """Fill in a node's missing policies with the defaults.

    Raises:
        GraphBuildError: the default timeout would apply to a sync function.
    """
    if spec.timeout is None and defaults.timeout is not None:
        policies.timeout_of(f"node {spec.name!r}", spec.action, defaults.timeout)
    return replace(
        spec,
        retry=spec.retry or defaults.retry,
        cache=spec.cache or defaults.cache,
        handler=spec.handler or defaults.handler,
        timeout=spec.timeout or defaults.timeout,
    )


def handler_with_defaults(spec: "NodeSpec", defaults: NodeDefaults) -> "NodeSpec":
    """Fill in an error handler's policies: the default retries and, if it is async, the timeout.

    It never gets a cache or a handler of its own.
    """
    limit = defaults.timeout if calls.is_async(spec.action) else None
    return replace(spec, retry=defaults.retry, timeout=limit)
