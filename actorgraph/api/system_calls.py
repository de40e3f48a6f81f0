"""Start a run of an ActorSystem: its arguments, checked, and what is stored of them.

The arguments become a call, the call a `Launch` and a `Job`. Its row has the call encoded, so
that another process can start or resume the run.
"""

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
    """Options of `ActorSystem.start`: those of `ainvoke` (`CallOptions`), and these.

    Attributes:
        config: as for `ainvoke`; callbacks in it are not stored, so a recovered run has none.
        stream_mode: the modes of the run's events; () for none. Default "values" and "updates".
        subgraphs: whether to include events of subgraphs. Default False.
        metadata: JSON values, shown when runs are listed.
        resumable: store the run's events, so that a late reader gets all of them, even after a
            restart of the process. Default False: the newest are kept in memory.
    """

    config: Mapping[str, Any] | None
    stream_mode: StreamMode | Sequence[StreamMode] | tuple[()]
    subgraphs: bool
    metadata: Mapping[str, Any] | None
    resumable: bool


class StartCall(msgspec.Struct, frozen=True):
    """The validated arguments of one call of `start`.

    Attributes:
        name: of the graph in the system.
        thread_id: the thread.
        given: the input.
        config: with the thread's id in it.
        options: those of `ainvoke`.
        modes: stream modes of its events.
        subgraphs: whether events of subgraphs are included.
        resumable: whether its events are stored.
        metadata: of the run.
        if_busy: what to do if another run has the thread.
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


def config_with_thread(config: Mapping[str, Any] | None, thread_id: str) -> dict[str, Any]:
    """Return a call's config with the thread's id in it.

    Raises:
        InvalidConfigError: it is not a dict, or its `configurable` is not.
    """
    given = dict(configs.checked(config))
    place = given.get("configurable") or {}
    if not isinstance(place, Mapping):
        raise InvalidConfigError(
            f'config["configurable"] must be a dict, got {place!r}',
            do="pass a dict, or leave it out",
        )
    given["configurable"] = {**place, "thread_id": thread_id}
    return given


def event_modes_of(stream_mode: str | Sequence[str]) -> tuple[str, ...]:
    """Return the stream modes of a run's events; none for an empty list.

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
) -> StartCall:
    """Validate the arguments of `start`.

    Args:
        name: of the graph.
        thread_id: the thread.
        given: the input.
        options: see `StartOptions`.
        keeps: whether the saver stores events.
        if_busy: see `ActorSystem.start`.
    Raises:
        InvalidConfigError: an argument is invalid.
    """
    resumable = options.get("resumable", False)
    if resumable and not keeps:
        raise InvalidConfigError(
            "resumable=True needs a saver that stores events, which the system's saver doesn't",
            do="use e.g. SqliteSaver, or leave resumable out",
        )
    config = config_with_thread(options.get("config"), thread_id)
    configs.address_of(config, needs_thread=True)
    rest = {key: value for key, value in options.items() if key not in _OWN}
    return StartCall(
        name=name,
        thread_id=thread_id,
        given=from_langgraph(given),
        config=config,
        options=call_options("start", cast("Any", rest)),
        modes=event_modes_of(options.get("stream_mode", SHOWN)),
        subgraphs=options.get("subgraphs", False),
        resumable=resumable,
        metadata=_json("metadata", options.get("metadata")),
        if_busy=if_busy,
    )


def _json(name: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a dict of JSON values as it will be read back.

    Raises:
        InvalidConfigError: it has values that JSON doesn't have.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(value or {})))
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise InvalidConfigError(
            f"{name} must be a dict of JSON values, got {value!r}: {error}",
            do="use strings, numbers, lists and dicts",
        ) from error
