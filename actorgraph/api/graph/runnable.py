"""A compiled graph as a Runnable of LangChain, in programs that have imported it.

`isinstance(graph, Runnable)` is true, `graph | parser` is a chain, and methods that Runnables have
and graphs don't (`with_retry`, `map`, `as_tool`, `astream_log`, ...) are LangChain's own, called
with the graph. LangChain is imported only when one of them, or `|`, is used
(docs/decisions/0089).
"""

import sys
from importlib.util import find_spec
from typing import Any

from actorgraph.api.graph.describe import DescriptionMethods
from actorgraph.api.graph.setup import Config
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


def _loaded() -> Any:
    """Return LangChain's class Runnable if the program has imported it; else None."""
    # getattr: another thread may be importing it, so that the module is incomplete.
    return getattr(sys.modules.get(_BASE), "Runnable", None)


def _imported(what: str) -> Any:
    """Import LangChain's class Runnable.

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


class RunnableMethods(DescriptionMethods):
    """What Runnables have: operators, schemas as pydantic models, LangChain's own methods."""

    # isinstance() reads `__class__` first. So a graph becomes a Runnable when somebody asks, also
    # one that was compiled before LangChain was imported.
    @property
    def __class__(self) -> Any:
        adopt()
        return type(self)

    @__class__.setter
    def __class__(self, kind: type) -> None:
        vars(object)["__class__"].__set__(self, kind)

    def __getattr__(self, name: str) -> Any:
        """Return a method of LangChain's class Runnable, bound to this graph.

        Raises:
            AttributeError: there is none of this name.
        """
        if name in _OF_RUNNABLES and find_spec("langchain_core") is not None:
            runnable = _imported(name)
        else:
            runnable = None if name.startswith("__") else _loaded()
        if runnable is not None:
            adopt()
            for base in runnable.__mro__[:-1]:
                if name in vars(base):
                    found = vars(base)[name]
                    return found.__get__(self, type(self)) if hasattr(found, "__get__") else found
        needs = " without langchain-core, which is not installed" if name in _OF_RUNNABLES else ""
        msg = f"{type(self).__name__!r} object has no attribute {name!r}{needs}"
        raise AttributeError(msg, name=name, obj=self)

    # --- schemas ---

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of a run's input; None if it has several channels."""
        keys = self.input_channels
        return self.plan.channels[keys].UpdateType if isinstance(keys, str) else None

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of a run's output; None if it has several keys."""
        keys = self.output_channels
        return self.plan.channels[keys].ValueType if isinstance(keys, str) else None

    @property
    def input_schema(self) -> Any:
        """The class of a run's input: the declared one, a pydantic model if LangChain is loaded."""
        return self.plan.sources.input if _loaded() is None else self.get_input_schema()

    @property
    def output_schema(self) -> Any:
        """The class of a run's output: the declared one, a pydantic model if LangChain is loaded."""
        return self.plan.sources.output if _loaded() is None else self.get_output_schema()

    @property
    def config_specs(self) -> list[Any]:
        """Fields of a config that LangChain's chains collect: none."""
        return []

    def get_input_schema(self, config: Config | None = None) -> Any:
        """Return a pydantic model of a run's input.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        runnable, keys = _imported("get_input_schema()"), self.input_channels
        if isinstance(keys, str):
            try:
                return runnable.get_input_schema(self, config)
            except _refused_by_pydantic():
                keys = self.plan.start.writes
        types = {key: self.plan.channels[key].UpdateType for key in keys}
        return _model(self.get_name("Input"), types)

    def get_output_schema(self, config: Config | None = None) -> Any:
        """Return a pydantic model of a run's output.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        runnable, keys = _imported("get_output_schema()"), self.output_channels
        if isinstance(keys, str):
            return runnable.get_output_schema(self, config)
        types = {key: self.plan.channels[key].ValueType for key in keys}
        return _model(self.get_name("Output"), types)

    # --- chains ---

    def as_runnable(self) -> Any:
        """Wrap the graph as a LangChain Runnable, whose `stream` yields one chunk: the output.

        In a chain, or as it is, a graph streams its updates.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        _imported("as_runnable()")
        from langchain_core.runnables import RunnableLambda

        graph: Any = self

        def invoke(input: Any, config: Config) -> Any:
            return graph.invoke(input, config)

        async def ainvoke(input: Any, config: Config) -> Any:
            return await graph.ainvoke(input, config)

        return RunnableLambda(invoke, afunc=ainvoke, name=self.name)

    def __call__(self, input: Any, config: Config | None = None) -> Any:
        """Call `invoke`; LangChain takes a callable as the step of a chain."""
        graph: Any = self
        return graph.invoke(input, config)

    def __or__(self, step: Any) -> Any:
        """Make a chain that passes the output of this graph on to a step."""
        return _imported("graph | step").__or__(self, step)

    def __ror__(self, step: Any) -> Any:
        """Make a chain that passes the output of a step on to this graph."""
        return _imported("step | graph").__ror__(self, step)


def _refused_by_pydantic() -> type[Exception]:
    """The error for a class of which pydantic makes no model, such as a msgspec.Struct."""
    from pydantic.errors import PydanticUserError

    return PydanticUserError


def _model(name: str, types: dict[str, Any]) -> Any:
    """Make a pydantic model with optional keys of these types."""
    from langchain_core.utils.pydantic import create_model_v2

    return create_model_v2(name, field_definitions={key: (typ, None) for key, typ in types.items()})


_adopted: Any = None


def adopt() -> None:
    """Make compiled graphs a virtual subclass of Runnable, if LangChain is loaded."""
    global _adopted  # noqa: PLW0603 - of the class that knows of graphs
    runnable = _loaded()
    if runnable is not _adopted and runnable is not None:
        _adopted = runnable
        runnable.register(RunnableMethods)


adopt()
