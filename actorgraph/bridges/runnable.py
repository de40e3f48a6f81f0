"""A compiled graph as a Runnable of LangChain, in programs that have imported it.

`isinstance(graph, Runnable)` is true, `graph | parser` is a chain, and methods that Runnables have
and graphs lack (`with_retry`, `map`, `as_tool`, `astream_log`, ...) are LangChain's own, called
with the graph. LangChain is imported only when one of them, or `|`, is used
(docs/decisions/0089).
"""

import sys
from importlib.util import find_spec
from typing import Any

from actorgraph.errors import MissingExtraError

_BASE = "langchain_core.runnables.base"

_OF_RUNNABLES = frozenset(
    {
        *("abatch_as_completed", "as_tool", "assign", "astream_log", "atransform"),
        *("batch_as_completed", "bind", "config_schema", "get_prompts", "map", "pick", "pipe"),
        *("transform", "with_alisteners", "with_fallbacks", "with_listeners", "with_retry"),
        "with_types",
    }
)
"""Public methods that a graph has from LangChain; their use imports it."""


def loaded_runnable() -> Any:
    """Return LangChain's class Runnable; None if the program has not imported it."""
    # getattr: another thread may be importing it, so that the module is incomplete.
    return getattr(sys.modules.get(_BASE), "Runnable", None)


def imported_runnable(what: str) -> Any:
    """Import LangChain's class Runnable.

    Args:
        what: the operation that needs it, for the error.
    Raises:
        MissingExtraError: langchain-core is not installed.
    """
    try:
        from langchain_core.runnables import Runnable
    except ImportError:
        raise MissingExtraError(
            f"{what} needs langchain-core, which is not installed",
            do="pip install 'actorgraph[langchain]'",
        ) from None
    return Runnable


def borrowed(graph: Any, name: str) -> Any:
    """Return an attribute of LangChain's class Runnable, bound to a graph.

    Raises:
        AttributeError: the class has no attribute of this name, or LangChain is not loaded.
    """
    if name in _OF_RUNNABLES and find_spec("langchain_core") is not None:
        runnable = imported_runnable(name)
    else:
        runnable = None if name.startswith("__") else loaded_runnable()
    for base in () if runnable is None else runnable.__mro__[:-1]:
        if name in vars(base):
            found = vars(base)[name]
            return found.__get__(graph, type(graph)) if hasattr(found, "__get__") else found
    needs = " without langchain-core, which is not installed" if name in _OF_RUNNABLES else ""
    msg = f"{type(graph).__name__!r} object has no attribute {name!r}{needs}"
    raise AttributeError(msg, name=name, obj=graph)


def as_runnable(call: Any, acall: Any, name: str) -> Any:
    """Make a Runnable of a function and its async form.

    Raises:
        MissingExtraError: langchain-core is not installed.
    """
    imported_runnable("as_runnable()")
    from langchain_core.runnables import RunnableLambda

    return RunnableLambda(call, afunc=acall, name=name)


def chain_events(graph: Any, given: Any, config: Any, version: str, options: Any) -> Any:
    """Read LangChain's events of one run: see `ChainEvents`.

    Raises:
        MissingExtraError: langchain-core is not installed.
    """
    try:
        from actorgraph.bridges.chain_events import ChainEvents
    except ImportError:
        raise MissingExtraError(
            f"events of version={version!r} need langchain-core, which is not installed",
            do="use version='v2', or pip install 'actorgraph[langchain]'",
        ) from None
    return ChainEvents(graph, given, config, version, options)


def pydantic_model(name: str, types: dict[str, Any]) -> Any:
    """Make a pydantic model with optional keys of these types."""
    from langchain_core.utils.pydantic import create_model_v2

    return create_model_v2(name, field_definitions={key: (typ, None) for key, typ in types.items()})


def refused_by_pydantic() -> type[Exception]:
    """The error for a class that pydantic refuses: before Python 3.12 a TypedDict of `typing`."""
    from pydantic.errors import PydanticUserError

    return PydanticUserError


_adopted: Any = None


def adopt_graphs(graphs: type) -> None:
    """Make a class of graphs a virtual subclass of Runnable, if LangChain is loaded."""
    global _adopted  # noqa: PLW0603 - the class is registered once
    runnable = loaded_runnable()
    if runnable is not _adopted and runnable is not None:
        _adopted = runnable
        runnable.register(graphs)
