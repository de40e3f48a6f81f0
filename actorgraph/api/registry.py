"""Named stores: `compile(stores={"memory": store})`, read as `runtime.stores["memory"]`."""

from collections.abc import Mapping
from types import MappingProxyType

from actorgraph.errors import GraphBuildError
from actorgraph.ports import Store
from actorgraph.runtime.handle import NO_STORES


def stores_of(stores: Mapping[str, Store] | None) -> Mapping[str, Store]:
    """Check and copy a mapping of named stores.

    Raises:
        GraphBuildError: it is not a mapping of names to stores.
    """
    if not stores:
        return NO_STORES
    if not isinstance(stores, Mapping):
        raise GraphBuildError(
            f"stores must be a dict, got {stores!r}",
            do='pass {"name": store}; one store is `store=`',
        )
    for name, store in stores.items():
        if not isinstance(name, str) or isinstance(store, type) or not isinstance(store, Store):
            raise GraphBuildError(
                f"stores[{name!r}] must be an object with `batch` and `abatch`, got {store!r}",
                do='pass {"name": store} with store objects, such as InMemoryStore()',
            )
    return MappingProxyType(dict(stores))


def merge_stores(own: Mapping[str, Store], call: Mapping[str, Store] | None) -> Mapping[str, Store]:
    """Merge a graph's named stores with a call's, which take precedence."""
    return {**own, **stores_of(call)} if call else own
