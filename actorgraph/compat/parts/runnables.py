"""RunnableCallable: a Runnable of a sync and an async function, as agents add them as nodes."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, cast

from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig
from langchain_core.runnables.config import ensure_config as with_defaults

from actorgraph.compat.parts.config_functions import filled_in
from actorgraph.plan.callables import injected
from actorgraph.runtime.task.calling import thread_limiter
from actorgraph.runtime.task.hops import hop

RunnableLike = Runnable[Any, Any] | Callable[..., Any]
"""Anything that a node may be made of."""

_AGENT_EDGES = "langchain.agents.factory"
QUICK_EDGES = frozenset(
    {
        "_make_tools_to_model_edge.<locals>.tools_to_model",
        "_make_model_to_tools_edge.<locals>.model_to_tools",
        "_make_model_to_model_edge.<locals>.model_to_model",
        "_add_middleware_edge.<locals>.jump_edge",
    }
)
"""The edges of `create_agent`: they read messages and the names of tools, and never wait.

A worker thread for each costs a fifth of a conversation. A proof by their text fails at the objects
of LangChain that they look into.
"""


def is_quick_edge(function: Callable[..., Any]) -> bool:
    """Whether a sync function is an edge of LangChain's agents, which may run on the event loop."""
    if getattr(function, "__module__", None) != _AGENT_EDGES:
        return False
    return getattr(function, "__qualname__", None) in QUICK_EDGES


class RunnableCallable(Runnable[Any, Any]):
    """A Runnable of functions: `invoke` calls the sync one, `ainvoke` the async one.

    Parameters of the functions named `config`, `runtime`, `store`, `writer` and `previous` are
    filled in, as those of a node.

    Args:
        func: sync; None: `invoke` raises.
        afunc: async; None: `ainvoke` calls `func` in a worker thread.
        name: default: the name of `func`, else of `afunc`.
        tags: for callbacks.
        trace: whether callbacks hear of each call.
        recurse: whether a Runnable that a function returns is run.
        explode_args: whether the input is `(args, kwargs)` for the functions.
        kwargs: further arguments of the functions.
    Raises:
        ValueError: both functions are None.
    """

    def __init__(
        self,
        func: Callable[..., Any] | None,
        afunc: Callable[..., Awaitable[Any]] | None = None,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        trace: bool = True,
        recurse: bool = True,
        explode_args: bool = False,
        **kwargs: Any,
    ) -> None:
        some = func or afunc
        if some is None:
            raise ValueError("At least one of func or afunc must be provided.")
        named = getattr(some, "__name__", None)
        self.name = name or (named if named != "<lambda>" else None)
        self.func = func
        self.afunc = afunc
        self.tags = tags
        self.trace = trace
        self.recurse = recurse
        self.explode_args = explode_args
        self.kwargs = kwargs
        self._filled = injected(some)
        self._quick = func is not None and is_quick_edge(func)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the sync function.

        Raises:
            TypeError: there is only an async one.
        """
        function = self.func
        if function is None:
            raise TypeError(
                f'No synchronous function provided to "{self.name}". Call the graph by its async '
                "methods (ainvoke, astream), or give it a sync function"
            )

        def call(given: Any, config: RunnableConfig) -> Any:
            args, named = self._arguments(given, config, kwargs)
            result = function(*args, **named)
            if self.recurse and isinstance(result, Runnable):
                return result.invoke(given, config)
            return result

        config = with_defaults(config)
        if not self.trace:
            return call(input, config)
        return self._call_with_config(cast("Any", call), input, self._tagged(config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Call the async function, or the sync one: in a worker thread, unless it is quick."""
        function, plain = self.afunc, self.func

        async def call(given: Any, config: RunnableConfig) -> Any:
            args, named = self._arguments(given, config, kwargs)
            if function is not None:
                result = await function(*args, **named)
            elif self._quick:
                result = cast("Any", plain)(*args, **named)
            else:
                assert plain is not None
                result = await hop(partial(plain, *args, **named), thread_limiter())
            if self.recurse and isinstance(result, Runnable):
                return await result.ainvoke(given, config)
            return result

        config = with_defaults(config)
        if not self.trace:
            return await call(input, config)
        return await self._acall_with_config(cast("Any", call), input, self._tagged(config))

    def _tagged(self, config: RunnableConfig) -> RunnableConfig:
        return {**config, "tags": [*(config.get("tags") or ()), *(self.tags or ())]}

    def _arguments(
        self, given: Any, config: RunnableConfig, more: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arguments of a function for one input."""
        args: Sequence[Any] = (given,)
        named = {**self.kwargs, **more}
        if self.explode_args:
            args, exploded = given
            named = {**self.kwargs, **exploded, **more}
        wanted = [name for name in self._filled if name not in named]
        return args, {**filled_in(wanted, config), **named}
