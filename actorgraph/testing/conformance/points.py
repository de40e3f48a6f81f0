"""Builders for checks: configs and checkpoints in LangGraph's form, rows and commits."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from actorgraph.runtime.clock import IDS
from actorgraph.testing.conformance.bench import Public
from actorgraph.values.ids import as_text

Config = dict[str, Any]


def at(thread_id: str = "t", namespace: str = "", **more: Any) -> Config:
    """The config of a namespace of a thread; with `checkpoint_id=`, of a checkpoint."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, **more}}


def whole(thread_id: str = "t") -> Config:
    """The config of a thread with all its namespaces, for lists."""
    return {"configurable": {"thread_id": thread_id}}


def new_id() -> str:
    """A checkpoint id greater than all earlier ones."""
    return as_text(IDS.checkpoint(0, None))


def new_task() -> str:
    """The id of a task."""
    return str(uuid4())


def checkpoint(values: Mapping[str, Any], *, version: int = 1, named: str | None = None) -> Any:
    """A checkpoint whose channels all have one version.

    Args:
        named: its id; default a new one.
    """
    return {
        "v": 4,
        "id": named or new_id(),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict.fromkeys(values, version),
        "versions_seen": {"node": dict.fromkeys(values, version)},
        "updated_channels": sorted(values),
    }


def metadata(step: int, source: str = "loop", **more: Any) -> dict[str, Any]:
    """The metadata of a checkpoint."""
    return {"source": source, "step": step, "parents": {}, **more}


async def chain(saver: Public, count: int, start: Config | None = None, **more: Any) -> list[Any]:
    """Store checkpoints, each the child of the previous one; the value of `x` is its step.

    Args:
        more: further metadata, the same for all.
    Returns: their configs, oldest first.
    """
    config: Any = start or at()
    configs = list[Any]()
    for step in range(count):
        point = checkpoint({"x": step}, version=step + 1)
        config = await saver.put(config, point, metadata(step, **more))
        configs.append(config)
    return configs


def id_of(config: Mapping[str, Any]) -> str:
    """The checkpoint that a config addresses."""
    return config["configurable"]["checkpoint_id"]


def values_of(found: Any) -> Any:
    """The channel values of a checkpoint tuple; None for None."""
    return None if found is None else found.checkpoint["channel_values"]


async def steps(saver: Public, config: Config | None, **options: Any) -> list[int]:
    """The steps of the checkpoints of a list, in its order."""
    return [found.metadata["step"] for found in await saver.list(config, **options)]
