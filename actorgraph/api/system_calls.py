"""What `ActorSystem.start` takes, checked before anything is written."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.options import CallOptions, call_options
from actorgraph.errors import InvalidConfigError
from actorgraph.values.interop import from_langgraph
from actorgraph.values.policies import StreamMode
from actorgraph.values.systems import IfBusy

_OWN = ("config", "stream_mode", "subgraphs", "metadata", "resumable")
SHOWN: tuple[StreamMode, ...] = ("values", "updates")


class StartOptions(CallOptions, total=False):
    """What `ActorSystem.start` takes besides; the rest is that of `ainvoke`, see `CallOptions`.

    config: as for `ainvoke`; callbacks in it are not stored, so that a recovered run has none.
    stream_mode: what the run's events are; () for none. Default "values" and "updates".
    subgraphs: whether also those of the graphs inside. Default False.
    metadata: JSON values, for whoever lists runs.
    resumable: store the run's events, so that a late reader gets them all, also after a restart
        of the process. Otherwise, the default, the newest are kept in memory.
    """

    config: Mapping[str, Any] | None
    stream_mode: StreamMode | Sequence[StreamMode] | tuple[()]
    subgraphs: bool
    metadata: Mapping[str, Any] | None
    resumable: bool


class Call(msgspec.Struct, frozen=True):
    """One call of `start`, checked.

    Attributes:
        modes: stream modes that its events have. subgraphs: also of the graphs inside.
        resumable: whether its events are stored.
        if_busy: what it does where another run has its thread.
    """

    name: str
    thread_id: str
    given: Any
    config: dict[str, Any]
    options: CallOptions
    modes: tuple[str, ...]
    subgraphs: bool
    resumable: bool
    metadata: dict[str, Any]
    if_busy: IfBusy = "enqueue"


def config_of(config: Mapping[str, Any] | None, thread_id: str) -> dict[str, Any]:
    """A call's config with the thread's id in it.

    Raises:
        InvalidConfigError: it can't be used.
    """
    given = dict(configs.checked(config))
    place = given.get("configurable") or {}
    if not isinstance(place, Mapping):
        raise InvalidConfigError(
            f'config["configurable"] is {place!r}, not a dict', do="pass a dict, or leave it out"
        )
    given["configurable"] = {**place, "thread_id": thread_id}
    return given


def modes_of(stream_mode: str | Sequence[str]) -> tuple[str, ...]:
    """The modes that a run's events have; none for an empty list.

    Raises:
        InvalidConfigError: one of them doesn't exist.
    """
    return configs.modes_of(stream_mode) if stream_mode else ()


def checked_call(
    name: str,
    thread_id: str,
    given: Any,
    options: StartOptions,
    *,
    keeps: bool,
    if_busy: IfBusy = "enqueue",
) -> Call:
    """A call of `start`.

    Args:
        keeps: whether the saver stores events.
    Raises:
        InvalidConfigError: an argument can't be used.
    """
    resumable = options.get("resumable", False)
    if resumable and not keeps:
        raise InvalidConfigError(
            "resumable=True, and the system's saver stores no events",
            do="use a saver that does, such as SqliteSaver, or leave resumable out",
        )
    config = config_of(options.get("config"), thread_id)
    configs.address_of(config, needs_thread=True)
    rest = {key: value for key, value in options.items() if key not in _OWN}
    return Call(
        name=name,
        thread_id=thread_id,
        given=from_langgraph(given),
        config=config,
        options=call_options("start", cast("Any", rest)),
        modes=modes_of(options.get("stream_mode", SHOWN)),
        subgraphs=options.get("subgraphs", False),
        resumable=resumable,
        metadata=_json("metadata", options.get("metadata")),
        if_busy=if_busy,
    )


def _json(name: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """A dict of JSON values, as it will be read back.

    Raises:
        InvalidConfigError: it is none.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(value or {})))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidConfigError(
            f"{name}={value!r} is no dict of JSON values: {error}", do="use text and numbers"
        ) from error
