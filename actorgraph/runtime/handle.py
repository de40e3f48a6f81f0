"""Runtime: what a node is handed besides the state. `Supplies`: what a run has of it.

A node that doesn't ask for a `Runtime` costs nothing: it is made when it is asked for.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from actorgraph.errors import OutsideRunError
from actorgraph.ports import Store
from actorgraph.values.control import RunControl
from actorgraph.values.execution import ExecutionInfo, ServerInfo

ContextT = TypeVar("ContextT")
NO_STORES: Mapping[str, Store] = MappingProxyType({})


class Supplies(msgspec.Struct, frozen=True):
    """What the caller of a run supplies to all its nodes, and to those of the graphs below.

    Attributes:
        context: the call's `context`, in the graph's `context_schema`.
        store: the graph's, or the one above's.
        stores: by name: the call's, the graph's, those of the graphs above.
        server_info: set by a server.
    """

    context: Any = None
    store: Store | None = None
    server_info: ServerInfo | None = None
    stores: Mapping[str, Store] = NO_STORES

    def below(
        self, context: Any, store: Store | None, stores: Mapping[str, Store] = NO_STORES
    ) -> "Supplies":
        """The supplies of a nested run: its own, and from above what it doesn't have."""
        if context is None and store is None and not stores:
            return self
        return Supplies(
            self.context if context is None else context,
            self.store if store is None else store,
            self.server_info,
            MappingProxyType({**self.stores, **stores}) if stores else self.stores,
        )


NOTHING_SUPPLIED = Supplies()


def write_nothing(chunk: Any) -> None:
    """The writer of a `Runtime` that belongs to no run."""


def beat_nothing() -> None:
    """The heartbeat of a node without an idle timeout."""


@dataclass(frozen=True, kw_only=True)  # no slots: Runtime[Ctx](...) sets an attribute
class Runtime(Generic[ContextT]):
    """What a node is handed besides the state: `async def node(state, runtime: Runtime[Ctx])`.

    Attributes:
        context: what the caller passed as `context=`, in the graph's `context_schema`; None if
            nothing was passed.
        stores: name -> store, of `compile(stores=...)` and the call's `stores=`.
        store: what was given to `compile(store=...)`, here or in the graph above; or None.
        stream_writer: sends its argument to the readers of `stream_mode="custom"`.
        heartbeat: call it in long work, so that an idle timeout counts from there anew.
        previous: what the thread's last run saved (functional API); else None.
        execution_info: which task of which run this is; None outside of a run.
        server_info: set by a server that runs the graph; else None.
        control: asks the run to stop before its next superstep; None outside of a run.
    """

    context: ContextT = field(default=None)  # type: ignore[assignment]
    store: Any = None
    stream_writer: Callable[[Any], None] = write_nothing
    heartbeat: Callable[[], None] = beat_nothing
    previous: Any = None
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None
    stores: Mapping[str, Any] = field(default_factory=lambda: NO_STORES)

    @property
    def drain_requested(self) -> bool:
        """Whether somebody has asked the run to stop before its next superstep."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why, if somebody has."""
        return None if self.control is None else self.control.drain_reason

    def override(self, **fields: Any) -> "Runtime[ContextT]":
        """A copy with some fields replaced."""
        return replace(self, **fields)

    def merge(self, other: "Runtime[ContextT]") -> "Runtime[ContextT]":
        """A copy with every field that the other one has set."""
        given = {name: getattr(other, name) for name in _FIELDS}
        return replace(self, **{n: v for n, v in given.items() if not _is_unset(v)})

    def patch_execution_info(self, **fields: Any) -> "Runtime[ContextT]":
        """A copy with some fields of `execution_info` replaced.

        Raises:
            OutsideRunError: it has none, because it belongs to no run.
        """
        if self.execution_info is None:
            raise OutsideRunError(
                "execution_info of a Runtime that belongs to no run can't be patched",
                do="pass a whole one: runtime.override(execution_info=ExecutionInfo(...))",
            )
        return self.override(execution_info=self.execution_info.patch(**fields))


_FIELDS = tuple(Runtime.__dataclass_fields__)


def _is_unset(value: object) -> bool:
    return value is None or value in (write_nothing, beat_nothing) or value is NO_STORES
