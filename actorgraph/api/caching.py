"""Clear a graph's cache of node results."""

from collections.abc import Sequence

from actorgraph.api.blocking import block_on
from actorgraph.api.compiled import CompiledBase
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.ports import Cache
from actorgraph.runtime.caching import cache_namespace


class CacheMethods(CompiledBase):
    """`aclear_cache` and `clear_cache`."""

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Remove the cached results of nodes.

        Args:
            nodes: their names; default all nodes with a `cache_policy`.
        Raises:
            InvalidConfigError: the graph has no cache, or no such node.
        """
        cache = self._own_cache()
        names = self._cached_nodes() if nodes is None else list(nodes)
        for name in names:
            if name not in self.plan.nodes:
                raise InvalidConfigError(
                    f"graph {self.name!r} has no node {name!r}",
                    do=did_you_mean(name, self._cached_nodes()),
                )
        policies = [(self.plan.nodes[name].cache, name) for name in names]
        spaces = [cache_namespace(p, self.graph_id, name) for p, name in policies if p is not None]
        await cache.aclear(spaces)

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Blocking version of `aclear_cache`."""
        block_on("aclear_cache", lambda: self.aclear_cache(nodes))

    def _cached_nodes(self) -> list[str]:
        return [node.name for node in self.plan.nodes.values() if node.cache is not None]

    def _own_cache(self) -> Cache:
        if self.cache is None:
            raise InvalidConfigError(
                f"No cache is set for graph {self.name!r}. Cannot clear cache.",
                do="pass cache= to compile(), e.g. InMemoryCache()",
            )
        return self.cache
