"""Address a thread by its id, or by a config."""

from actorgraph.errors import InvalidConfigError
from actorgraph.values.configs import Config


def config_of(
    config: Config | str | None, thread_id: str | None = None, checkpoint_id: str | None = None
) -> Config:
    """Return the config of a thread, or of one of its checkpoints.

    Args:
        config: a config or a thread id.
        thread_id: used if no config is given.
        checkpoint_id: the checkpoint; replaces the one in `config`.
    Raises:
        InvalidConfigError: the thread is given twice, or not at all.
    """
    if isinstance(config, str):
        config, thread_id = None, thread_id or config
    if config is None:
        if thread_id is None:
            raise InvalidConfigError(
                "no thread id was given",
                do='pass a thread id, or {"configurable": {"thread_id": ..}}',
            )
        return _at(thread_id, checkpoint_id)
    if thread_id is not None:
        raise InvalidConfigError(
            "the thread is given twice: in config and as thread_id=", do="leave one of them out"
        )
    if checkpoint_id is None:
        return config
    place = {**(config.get("configurable") or {}), "checkpoint_id": checkpoint_id}
    return {**config, "configurable": place}


def _at(thread_id: str, checkpoint_id: str | None) -> Config:
    place = {"thread_id": thread_id}
    return {"configurable": place | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}
