"""Steps of a thread as a saver alone knows them, without its graph. Pure.

The names of the next nodes are in the channels that edges write; which task asked or failed is
known by its id only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from actorgraph.values.state_snapshot import PregelTask, StateSnapshot

EDGE = "branch:to:"
"""The beginning of the names of channels that start a node."""
HIDDEN = (EDGE, "__")


def snapshot_of(found: Any) -> StateSnapshot:
    """Make a snapshot of a `CheckpointTuple`."""
    channels: Mapping[str, Any] = found.checkpoint["channel_values"]
    values = {name: value for name, value in channels.items() if not name.startswith(HIDDEN)}
    following = [name.removeprefix(EDGE) for name in channels if name.startswith(EDGE)]
    if "__start__" in channels and not following:
        following = ["__start__"]
    tasks = _tasks(following, found.pending_writes or ())
    return StateSnapshot(
        values,
        tuple(following),
        found.config,
        dict(found.metadata or {}),
        found.checkpoint.get("ts"),
        found.parent_config,
        tasks,
        tuple(asked for task in tasks for asked in task.interrupts),
    )


def _tasks(
    following: Sequence[str], writes: Sequence[tuple[str, str, Any]]
) -> tuple[PregelTask, ...]:
    by_task: dict[str, dict[str, Any]] = {}
    for task, channel, value in writes:
        by_task.setdefault(task, {})[channel] = value
    name = following[0] if len(following) == 1 else " or ".join(following) or "a task"
    found = [
        PregelTask(
            task,
            name,
            (),
            None if (error := wrote.get("__error__")) is None else str(error),
            tuple(wrote.get("__interrupt__") or ()),
            None,
            {k: v for k, v in wrote.items() if not k.startswith(HIDDEN)} or None,
        )
        for task, wrote in by_task.items()
    ]
    return tuple(found) or tuple(PregelTask(one, one, ()) for one in following)
