"""Stores by name: `compile(stores={"memory": store})`, read as `runtime.stores["memory"]`."""

from collections.abc import Mapping
from types import MappingProxyType

from actorgraph.errors import GraphBuildError
from actorgraph.ports import Store
from actorgraph.runtime.handle import NO_STORES


def stores_of(stores: Mapping[str, Store] | None) -> Mapping[str, Store]:
    """A registry, checked and copied.

    Raises:
        GraphBuildError: it is no mapping of names to stores.
    """
    if not stores:
        return NO_STORES
    if not isinstance(stores, Mapping):
        raise GraphBuildError(
            f"stores={stores!r} is no dict", do='pass {"name": store}; one store is `store=`'
        )
    for name, store in stores.items():
        if not isinstance(name, str) or isinstance(store, type) or not isinstance(store, Store):
            raise GraphBuildError(
                f"stores[{name!r}] is {store!r}, no object with `batch` and `abatch`",
                do='pass {"name": store} with store objects, such as InMemoryStore()',
            )
    return MappingProxyType(dict(stores))


def together(own: Mapping[str, Store], call: Mapping[str, Store] | None) -> Mapping[str, Store]:
    """A graph's registry and a call's, which comes first."""
    return {**own, **stores_of(call)} if call else own
