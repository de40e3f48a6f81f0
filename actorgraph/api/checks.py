"""What `compile` is handed, checked."""

from actorgraph.api.adopting import is_foreign
from actorgraph.errors import GraphBuildError
from actorgraph.plan.stored_names import check_graph_name
from actorgraph.ports import Cache, Saver, Store


def check_parts(name: object, saver: object, store: object, cache: object) -> None:
    """Refuse a name, a saver, a store or a cache that is none.

    Raises:
        GraphBuildError: one isn't.
    """
    check_name(name)
    check_saver(saver)
    check_store(store)
    check_cache(cache)


def check_name(name: object) -> None:
    """Refuse a graph's name that is no text, or text that some store can't keep.

    Raises:
        GraphBuildError: it isn't.
    """
    if not isinstance(name, (str, type(None))):
        raise GraphBuildError(
            f"{name!r} is no name of a graph: it is no text", do="pass name='...', or leave it out"
        )
    check_graph_name(name or "")


def check_saver(saver: object) -> None:
    """Refuse what is no saver.

    Raises:
        GraphBuildError: it isn't.
    """
    is_class = isinstance(saver, type)
    if is_class or not isinstance(saver, (Saver, bool, type(None))):
        if not is_class and is_foreign(saver):
            return
        raise GraphBuildError(
            f"Invalid checkpointer provided: {saver!r} is "
            f"{'a class' if is_class else 'no object with the methods of a saver'}",
            do="pass a saver object, such as SqliteSaver('runs.db'), not its class or context",
        )


def check_cache(cache: object) -> None:
    """Refuse what is no cache.

    Raises:
        GraphBuildError: it isn't.
    """
    if isinstance(cache, type) or not isinstance(cache, (Cache, type(None))):
        raise GraphBuildError(
            f"Invalid cache provided: {cache!r} has no `aget`, `aset` and `aclear`",
            do="pass a cache object, such as InMemoryCache(), not its class",
        )


def check_store(store: object) -> None:
    """Refuse what is no store.

    Raises:
        GraphBuildError: it isn't.
    """
    if isinstance(store, type) or not isinstance(store, (Store, type(None))):
        raise GraphBuildError(
            f"Invalid store provided: {store!r} is no object with `batch` and `abatch`",
            do="pass a store object, such as InMemoryStore(), not its class or context",
        )
