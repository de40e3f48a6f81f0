"""Reads: the things that a cached node looks at besides its input, for the key of its result.

A function may read the context, the config and the store by a parameter, by `get_runtime()` and
its like, in a `@task` or in a graph below. So it is noted while the node runs, as it happens; the
next look-up compares the same things (docs/decisions/0148). The names of what can be read:

context    the run's `context=`
config     `configurable`, without the ids of the run and keys of the runtime
metadata   the caller's, without those ids
tags       the caller's, each once
limits     `recursion_limit` and `max_concurrency`
control    whether the run was requested to stop
thread     the thread's id
previous   the value of the thread's last run
store      a store, whose contents no key can hold: such a result is not kept
no store   the absence of stores

Reads of absent parts count: a result made without a context is not that of a call with one.

Callbacks only listen, and `run_id` and `run_name` are not in a node's config: neither is noted.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from inspect import currentframe
from typing import Any, Protocol, cast

import msgspec

from actorgraph.bridging import BRIDGE
from actorgraph.runtime.task.runtime import Runtime
from actorgraph.runtime.task.task_places import TASK_PLACE
from actorgraph.values.configs import placed_metadata


class ReadingTask(Protocol):
    """A task's scope, as far as its reads go."""

    reads: "Reads | None"
    caller: Any
    run_context: Any

    @property
    def base_config(self) -> dict[str, Any]:
        """The run's config."""
        ...


RUN_IDS = frozenset(
    ("thread_id", "thread_ts", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id")
) | {"task_id", "langgraph_task_id", "langgraph_request_id"}
"""Keys of a config that differ from run to run: in a key they would make every result a new one."""

NO_STORE = "no store"
_RUNTIME_KEY = "__pregel_runtime"
_RUNTIME_KEYS = re.compile("__pregel_.*|__.*__")
_MERGES = ("merge_configs", "_merge_metadata_dicts")
"""Functions of LangChain and LangGraph that make plain dicts of several, whose reads show not."""
_PARTS = {
    "configurable": "config",
    "metadata": "metadata",
    "tags": "tags",
    "recursion_limit": "limits",
    "max_concurrency": "limits",
}
_FIELDS = {
    "context": "context",
    "store": "store",
    "stores": "store",
    "previous": "previous",
    "execution_info": "thread",
    "server_info": "config",
    "control": "control",
}


class Reads:
    """The things that one attempt of a cached node has read; nodes around it read them too.

    Args:
        above: of the cached node that this one is part of.
    """

    __slots__ = ("_above", "_closed", "_names")

    def __init__(self, above: "Reads | None") -> None:
        self._above = above
        self._names: set[str] = set()
        self._closed = False

    def note(self, names: Iterable[str]) -> None:
        """Note some reads."""
        if not self._closed:
            self._names.update(names)
        if self._above is not None:
            self._above.note(names)

    def take(self) -> frozenset[str]:
        """Return the reads so far and forget them."""
        names = frozenset(self._names)
        self._names.clear()
        return names

    def close(self) -> None:
        """Note no more: the node has returned, and its conditional edges are not cached."""
        self._closed = True


def reads_of(scope: ReadingTask | None) -> Reads | None:
    """Find the record of the nearest cached node that a task is, or is part of; else None."""
    while scope is not None:
        if scope.reads is not None:
            return scope.reads
        scope = scope.caller or scope.run_context.above
    return None


class NotedDict(dict[str, Any]):
    """A part of a config that notes who reads it.

    LangChain hands configs on to models and tools: its reads of the run's ids don't count.
    """

    reads: Reads | None = None
    name = ""

    def _note(self, key: object = None) -> None:
        if self.reads is None:
            return
        if key == _RUNTIME_KEY:  # the runtime notes its own reads
            return
        passes_on, merges = _reader()
        if passes_on and self.name == "metadata":
            if merges:
                self.reads.note((self.name,))
            return
        if key not in RUN_IDS:
            self.reads.note((self.name,))
        if not passes_on and (key is None or key in RUN_IDS):
            self.reads.note(("thread",))

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Read one value."""
        self._note(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """Read one value."""
        self._note(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Read one value, or set it."""
        self._note(key)
        return super().setdefault(key, default)

    def popitem(self) -> tuple[str, Any]:
        """Read one of the values."""
        self._note()
        return super().popitem()

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __iter__(self) -> Any:  # also makes `{**it}` and `dict(it)` ask for the keys below
        self._note()
        return super().__iter__()

    def __reversed__(self) -> Any:
        self._note()
        return super().__reversed__()

    def __eq__(self, other: object) -> bool:
        self._note()
        return super().__eq__(other)

    __hash__ = None

    def keys(self) -> Any:
        """Read all of them."""
        self._note()
        return super().keys()

    def values(self) -> Any:
        """Read all of them."""
        self._note()
        return super().values()

    def items(self) -> Any:
        """Read all of them."""
        self._note()
        return super().items()

    def __repr__(self) -> str:  # of f-strings too
        self._note()
        return super().__repr__()

    def __or__(self, other: Any) -> Any:
        self._note()
        return super().__or__(other)

    def __ror__(self, other: Any) -> Any:
        self._note()
        return super().__ror__(other)

    def copy(self) -> "NotedDict":
        """Copy it with its notes."""
        copied = type(self)()
        dict.update(copied, super().items())
        copied.reads, copied.name = self.reads, self.name
        return copied


class NotedConfig(NotedDict):
    """A config that notes who reads which part of it.

    A part that is taken counts as read, since C code, such as that of a pydantic model, reads a
    dict or a list unnoticed. LangChain takes parts to hand them on: its readers find a
    `NotedDict`, but of tags and limits they find plain values, so that its copies of a whole
    config read those.
    """

    def _note(self, key: object = None) -> None:
        if self.reads is None:
            return
        if key is None:
            self.reads.note(("tags", "limits"))
            return
        passes_on, merges = _reader()
        if key in _PARTS and (merges or not passes_on):
            self.reads.note((_PARTS[cast("str", key)],))


def _reader() -> tuple[bool, bool]:
    """Whether who reads a `NotedDict` only hands it on, and whether it merges it with others."""
    frame = currentframe()  # under it: `_note`, the dict's method, who reads
    for _ in range(3):
        frame = frame and frame.f_back
    if frame is None:
        return False, False
    module = frame.f_globals.get("__name__", "")
    merges = frame.f_code.co_name in _MERGES and not module.startswith("actorgraph.")
    return module.startswith(("actorgraph.", *BRIDGE.passes_on)), merges


def noted(config: dict[str, Any], reads: Reads) -> NotedConfig:
    """Copy a config with its `configurable` and metadata for a cached node."""
    noted_config = NotedConfig(config)
    for key in ("configurable", "metadata"):
        part = NotedDict(config[key])
        part.reads, part.name = reads, _PARTS[key]
        dict.__setitem__(noted_config, key, part)
    noted_config.reads = reads
    return noted_config


class _NotedParts:
    """Mixed into a class of runtimes, this library's or LangGraph's: notes which parts are read."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in _FIELDS:
            _note_fields(self, {name: value})
        return value


class NotedRuntime(_NotedParts, Runtime[Any]):
    """A `Runtime` that notes which of its parts are read.

    Its dict, its pickle and a deep copy hold all of them, so taking one is reading all.
    """

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            _note_fields(self, fields_of(self))
        return super().__getattribute__(name)

    def __copy__(self) -> "NotedRuntime":
        copied = object.__new__(type(self))
        fields_of(copied).update(fields_of(self))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        _note_fields(self, fields_of(self))
        return {name: value for name, value in fields_of(self).items() if name != "_reads"}


def fields_of(runtime: Any) -> dict[str, Any]:
    """The fields of a `Runtime`, for the library itself: taking them notes nothing."""
    return cast("dict[str, Any]", object.__getattribute__(runtime, "__dict__"))


def _note_fields(runtime: object, fields: Mapping[str, Any]) -> None:
    if reads := fields_of(runtime).get("_reads"):
        reads.note(
            {name_of_read(name, fields[key]) for key, name in _FIELDS.items() if key in fields}
        )


def name_of_read(name: str, value: object) -> str:
    """The name of a read with its outcome: the absence of stores can be in a key."""
    return NO_STORE if name == "store" and (value is None or value == {}) else name


def runtime_with_notes(kind: type[Any], fields: dict[str, Any], reads: Reads | None) -> Any:
    """Make a runtime of this library's class or LangGraph's.

    Args:
        reads: of a cached node, which it notes; None for another node.
    """
    if reads is None:
        return kind(**fields)
    runtime_noting = (NotedRuntime if kind is Runtime else _noting(kind))(**fields)
    object.__setattr__(runtime_noting, "_reads", reads)
    return runtime_noting


@cache
def _noting(kind: type[Any]) -> type[Any]:
    """A class of LangGraph's runtimes, with notes."""

    class Noting(_NotedParts, kind):
        def merge(self, other: Any) -> Any:
            """Hand it on to the tasks of a graph, which have threads and ids of their own."""
            held = {name: object.__getattribute__(self, name) for name in kind.__dataclass_fields__}
            _note_fields(self, {name: held[name] for name in held if name != "execution_info"})
            return kind(**held).merge(other)

    Noting.__name__, Noting.__qualname__ = kind.__name__, kind.__qualname__
    return Noting


def read_values(scope: ReadingTask, names: Iterable[str]) -> list[Any]:
    """The values behind some reads, as data for a key; dicts in the order of their keys."""
    config, resources = scope.base_config, scope.run_context.resources
    makers: dict[str, Any] = {
        "context": lambda: resources.context,
        "config": lambda: _lasting(config.get("configurable")),
        "metadata": lambda: _lasting(
            {**placed_metadata(config), **(config.get("metadata") or {})}, TASK_PLACE
        ),
        "tags": lambda: sorted({str(tag) for tag in config.get("tags") or ()}),
        "limits": lambda: [config.get("recursion_limit"), config.get("max_concurrency")],
        "control": lambda: scope.run_context.control.drain_requested,
        "thread": lambda: scope.run_context.thread_id,
        "previous": lambda: getattr(scope, "previous", None),
        NO_STORE: lambda: [resources.store is None, not resources.stores],
    }
    return [[name, as_data(makers[name]())] for name in names if name in makers]


def _lasting(values: Mapping[str, Any] | None, hidden: Collection[str] = ()) -> dict[str, Any]:
    config = {} if values is None else dict(values)
    return {
        key: value
        for key, value in config.items()
        if key not in RUN_IDS and key not in hidden and not _RUNTIME_KEYS.fullmatch(str(key))
    }


def as_data(value: Any) -> Any:
    """An object of a schema as its class's name and its fields, a dict with its keys sorted.

    So a context can be in a key whether or not it can be stored.
    """
    if isinstance(value, Mapping):
        mapping = cast("Mapping[Any, Any]", value)
        return {k: as_data(mapping[k]) for k in sorted(mapping, key=repr)}
    if type(value) in (list, tuple):
        return [as_data(each) for each in value]
    fields = _fields_of(value)
    if fields is None:
        return value
    kind = type(value)
    return [f"{kind.__module__}.{kind.__qualname__}", as_data(fields)]


def _fields_of(value: Any) -> dict[str, Any] | None:
    if isinstance(value, type):
        return None
    if hasattr(value, "model_fields_set"):
        return {**vars(value), **(getattr(value, "model_extra", None) or {})}
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if hasattr(value, "__attrs_attrs__"):
        return {a.name: getattr(value, a.name) for a in value.__attrs_attrs__}
    if hasattr(value, "identity") and hasattr(value, "__dict__"):  # a server's user
        return dict(vars(value))
    return None
