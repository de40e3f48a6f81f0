"""The two ways to say which thread: its id, or a config that addresses it."""

from collections.abc import Mapping
from typing import Any

from actorgraph.errors import InvalidConfigError

Config = Mapping[str, Any]


def config_of(
    config: Config | str | None, thread_id: str | None = None, checkpoint_id: str | None = None
) -> Config:
    """The config of a thread, or of one of its checkpoints.

    Args:
        config: a config or a thread's id.
        thread_id, checkpoint_id: the parts, where no config says them.
    Raises:
        InvalidConfigError: the thread is named twice, or not at all.
    """
    if isinstance(config, str):
        config, thread_id = None, thread_id or config
    if config is None:
        if thread_id is None:
            raise InvalidConfigError(
                "no thread was named", do='pass a thread id, or {"configurable": {"thread_id": ..}}'
            )
        return _at(thread_id, checkpoint_id)
    if thread_id is not None:
        raise InvalidConfigError(
            "the thread is named by a config and by thread_id=", do="leave one of them out"
        )
    if checkpoint_id is None:
        return config
    place = {**(config.get("configurable") or {}), "checkpoint_id": checkpoint_id}
    return {**config, "configurable": place}


def _at(thread_id: str, checkpoint_id: str | None) -> Config:
    place = {"thread_id": thread_id}
    return {"configurable": place | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
