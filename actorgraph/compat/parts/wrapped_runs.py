"""`Pregel` as programs wrap it: LangGraph's base of all graphs, whose `stream` sees every run.

Tracers replace `Pregel.stream`, `astream`, `invoke` or `ainvoke` by wrappers. Here compiled graphs
have another base, so an attribute that is set on `Pregel` is set on theirs. While `stream` or
`astream` is wrapped, `invoke` and `ainvoke` run by it, as LangGraph's always do.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any, cast

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.graph.graph_runs import chunk_keys
from actorgraph.api.graph.pregel import EveryGraph, Pregel
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.values.commands import GraphOutput
from actorgraph.values.constants import INTERRUPT

_RUNS = ("invoke", "ainvoke", "stream", "astream")
_OWN = {name: inspect.getattr_static(CompiledStateGraph, name) for name in _RUNS}


def _is_wrapped(name: str) -> bool:
    return inspect.getattr_static(CompiledStateGraph, name) is not _OWN[name]


def invoke(
    self: Any, input: Any, config: Any = None, *, stream_mode: Any = "values", **options: Any
) -> Any:
    """See `CompiledStateGraph.invoke`; by `stream`, if a program has wrapped that."""
    if not _is_wrapped("stream"):
        return _OWN["invoke"](self, input, config, stream_mode=stream_mode, **options)
    gathered = _Gathered(self, stream_mode, options)
    for chunk in self.stream(input, _config_of(config), **gathered.options):
        gathered.add(chunk)
    return gathered.result()


async def ainvoke(
    self: Any, input: Any, config: Any = None, *, stream_mode: Any = "values", **options: Any
) -> Any:
    """See `CompiledStateGraph.ainvoke`; by `astream`, if a program has wrapped that."""
    if not _is_wrapped("astream"):
        return await _OWN["ainvoke"](self, input, config, stream_mode=stream_mode, **options)
    gathered = _Gathered(self, stream_mode, options)
    async for chunk in self.astream(input, _config_of(config), **gathered.options):
        gathered.add(chunk)
    return gathered.result()


def _config_of(config: Any) -> Any:
    """Return the config that a wrapper is shown: of a subgraph's run without one, its task's."""
    scope = CURRENT.get(None)
    return scope.config if config is None and scope is not None else config


class _Gathered:
    """The result of a run, made of the chunks of its stream.

    Args:
        mode: the call's `stream_mode`; "values" asks for the final state, any other for chunks.
        given: the call's other options.

    Attributes:
        options: for the stream.
    """

    def __init__(self, graph: Any, mode: Any, given: Mapping[str, Any]) -> None:
        self._whole = mode == "values"
        self._version = given.get("version", "v1")
        self._values: Any = None
        self._asked: list[Any] = []
        self._chunks: list[Any] = []
        keys = chunk_keys(graph.plan, cast("Any", given))
        self.options = {**given, "output_keys": keys, "stream_mode": mode}
        if self._whole:
            self.options |= {"stream_mode": ["updates", "values"], "version": "v1"}

    def add(self, chunk: Any) -> None:
        """Take the next chunk."""
        if not self._whole:
            self._chunks.append(chunk)
            return
        *namespace, mode, payload = chunk
        if any(namespace):  # of a subgraph
            return
        if mode == "values":
            self._values = payload
        elif isinstance(payload, dict) and INTERRUPT in payload:
            self._asked.extend(payload[INTERRUPT])

    def result(self) -> Any:
        """Return the result of the call."""
        if not self._whole:
            return self._chunks
        if self._version == "v2":
            return GraphOutput(value=self._values, interrupts=tuple(self._asked))
        if not self._asked:
            return self._values
        return {**(self._values or {}), INTERRUPT: self._asked}


class _Wrappable(EveryGraph):
    """Sets attributes of `Pregel` on the base of compiled graphs."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(CompiledStateGraph, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _BY_STREAM or name in _OWN:
            setattr(CompiledStateGraph, name, _BY_STREAM.get(name, _OWN[name]))
        else:
            delattr(CompiledStateGraph, name)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, CompiledStateGraph)

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, CompiledStateGraph)


class WrappablePregel(Pregel, metaclass=_Wrappable):
    """`Pregel`, to be made or to be wrapped."""


WrappablePregel.__name__ = WrappablePregel.__qualname__ = "Pregel"

# With the parameters of the methods that they replace: a node that is a graph is given those.
_BY_STREAM = {
    name: functools.wraps(_OWN[name])(method)
    for name, method in (("invoke", invoke), ("ainvoke", ainvoke))
}
for _name, _method in _BY_STREAM.items():
    setattr(CompiledStateGraph, _name, _method)
