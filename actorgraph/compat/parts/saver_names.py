"""Names that authors of savers import from `langgraph.checkpoint.base` and `.serde.types`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from langchain_core.runnables import RunnableConfig

from actorgraph.values.constants import CONTROL_INDEX, ERROR, INTERRUPT, RESUME, TASKS

__all__ = [
    "ERROR",
    "EXCLUDED_METADATA_KEYS",
    "INTERRUPT",
    "LATEST_VERSION",
    "RESUME",
    "SCHEDULED",
    "TASKS",
    "WRITES_IDX_MAP",
    "ChannelProtocol",
    "DeltaSnapshot",
    "RunnableConfig",
    "SendProtocol",
    "V",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "writes_sort_key",
]

V = TypeVar("V", int, float, str)
Value = TypeVar("Value", covariant=True)  # noqa: PLC0105 - LangGraph's names
Update = TypeVar("Update", contravariant=True)  # noqa: PLC0105 - likewise
C = TypeVar("C")

SCHEDULED: Final = "__scheduled__"
WRITES_IDX_MAP: Final = {ERROR: -1, SCHEDULED: -2, INTERRUPT: -3, RESUME: -4}
"""Index of each control write; a saver replaces it by a later one. Others count from 0."""
assert all(CONTROL_INDEX[name] == at for name, at in WRITES_IDX_MAP.items() if name != SCHEDULED)

LATEST_VERSION: Final = 2
EXCLUDED_METADATA_KEYS: Final = {
    *("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map", "langgraph_step"),
    *("langgraph_node", "langgraph_triggers", "langgraph_path", "langgraph_checkpoint_ns"),
}
"""Keys of a config that don't go into a checkpoint's metadata."""


def get_checkpoint_metadata(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> Any:
    """Join a checkpoint's metadata and the plain values of the run's config; no NUL in texts.

    Keys with two leading underscores, and those that address a checkpoint, are left out.
    """
    joined = {key: _without_nul(value) for key, value in metadata.items()}
    for part in (config.get("metadata"), config.get("configurable")):
        for key, value in (part or {}).items():
            if key in joined or key in EXCLUDED_METADATA_KEYS or key.startswith("__"):
                continue
            if isinstance(value, str | int | float):
                joined[key] = _without_nul(value)
    return joined


def get_serializable_checkpoint_metadata(
    config: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Any:
    """Return `get_checkpoint_metadata` without `writes`, which older checkpoints have."""
    joined = get_checkpoint_metadata(config, metadata)
    joined.pop("writes", None)
    return joined


def _without_nul(value: Any) -> Any:
    return value.replace("\0", "") if isinstance(value, str) else value


def writes_sort_key(task_path: str, task_id: str = "", idx: int = 0) -> tuple[str, str, int]:
    """Return the key by which the writes of one superstep are sorted."""
    return (task_path, task_id, idx)


class DeltaSnapshot(NamedTuple):
    """LangGraph's mark of a DeltaChannel's whole value; none is made here."""

    value: Any


class ChannelProtocol(Protocol[Value, Update, C]):
    """A channel, as savers name it in signatures."""

    @property
    def ValueType(self) -> Any:  # noqa: N802 - LangGraph's name
        """Type of the channel's value."""
        ...

    @property
    def UpdateType(self) -> Any:  # noqa: N802 - LangGraph's name
        """Type of its writes."""
        ...

    def checkpoint(self) -> C | None:
        """Return the value to store."""
        ...

    def from_checkpoint(self, checkpoint: C | None) -> Self:
        """Make a channel of a stored value."""
        ...

    def update(self, values: Sequence[Update]) -> bool:
        """Fold in the writes of a superstep; whether it changed."""
        ...

    def get(self) -> Value:
        """Return its value."""
        ...

    def consume(self) -> bool:
        """Note that its value was read; whether it changed."""
        ...


@runtime_checkable
class SendProtocol(Protocol):
    """A Send, as serializers recognize it."""

    node: str
    arg: Any
