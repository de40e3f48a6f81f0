"""Check the arguments of `compile`."""

from actorgraph.api.adopting import is_foreign
from actorgraph.errors import GraphBuildError
from actorgraph.plan.stored_names import check_graph_name
from actorgraph.ports import Cache, Saver, Store


def check_parts(name: object, saver: object, store: object, cache: object) -> None:
    """Check a graph's name, saver, store and cache.

    Raises:
        GraphBuildError: one of them can't be used.
    """
    check_name(name)
    check_saver(saver)
    check_store(store)
    check_cache(cache)


def check_name(name: object) -> None:
    """Check that a graph's name is text that every saver can store.

    Raises:
        GraphBuildError: it is not.
    """
    if not isinstance(name, (str, type(None))):
        raise GraphBuildError(
            f"name must be a string, got {name!r}", do="pass name='...', or leave it out"
        )
    check_graph_name(name or "")


def check_saver(saver: object) -> None:
    """Check a checkpointer: a saver, a bool or None.

    Raises:
        GraphBuildError: it is something else.
    """
    is_class = isinstance(saver, type)
    if is_class or not isinstance(saver, (Saver, bool, type(None))):
        if not is_class and is_foreign(saver):
            return
        raise GraphBuildError(
            f"Invalid checkpointer provided: {saver!r} "
            f"{'is a class' if is_class else 'lacks the methods of a saver'}",
            do="pass a saver object, such as SqliteSaver('runs.db'), not its class or context",
        )


def check_cache(cache: object) -> None:
    """Check a cache.

    Raises:
        GraphBuildError: it lacks methods of the port, or is a class.
    """
    if isinstance(cache, type) or not isinstance(cache, (Cache, type(None))):
        raise GraphBuildError(
            f"Invalid cache provided: {cache!r} must be an object with `aget`, `aset`, `aclear`",
            do="pass a cache object, such as InMemoryCache(), not its class",
        )


def check_store(store: object) -> None:
    """Check a store.

    Raises:
        GraphBuildError: it lacks methods of the port, or is a class.
    """
    if isinstance(store, type) or not isinstance(store, (Store, type(None))):
        raise GraphBuildError(
            f"Invalid store provided: {store!r} must be an object with `batch` and `abatch`",
            do="pass a store object, such as InMemoryStore(), not its class or context",
        )
