"""Validate and parse the arguments of a call before anything runs.

The `config` dict, the ways to address a thread, and limits from arguments or the environment.
Every function raises InvalidConfigError for a bad value.
"""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from actorgraph.api.options import CallOptions
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.excerpts import shown
from actorgraph.errors.texts import is_encodable, plain
from actorgraph.plan.plan import Plan
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.superstep.nesting import stable_namespace
from actorgraph.values.configs import Config, check_texts, stored_metadata
from actorgraph.values.constants import (
    DEFAULT_NESTING_LIMIT,
    DEFAULT_RECURSION_LIMIT,
    LANGGRAPH_TASK,
    START,
)
from actorgraph.values.durations import seconds_of
from actorgraph.values.ids import as_bytes
from actorgraph.values.policies import STREAM_MODES, Durability, RunPolicy

_EXAMPLE = '{"configurable": {"thread_id": "..."}}'
THREAD_ID_BYTES_MAX = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN_ID = re.compile(f"[ -~]{{1,{THREAD_ID_BYTES_MAX}}}")
"""Printable ASCII: one byte a character. Most thread ids are, and need no closer look."""


def address_of(config: Config | None, *, needs_thread: bool) -> Address:
    """Return the thread, namespace and checkpoint that a config addresses.

    Args:
        needs_thread: whether a config without a thread id is an error.
    Raises:
        InvalidConfigError: the thread id is missing, or a part of the address is invalid.
    """
    place = (config if type(config) is dict else checked(config)).get("configurable") or {}
    if not isinstance(place, Mapping):
        raise _no_dict(place)
    thread_id = place.get("thread_id")
    if thread_id is None:
        if needs_thread:
            raise _no_thread(place)
        return Address()
    text = thread_id if isinstance(thread_id, str) else str(thread_id)
    if text is not thread_id or _PLAIN_ID.fullmatch(text) is None:
        check_thread_id(thread_id, text)
    namespace, checkpoint = place.get("checkpoint_ns"), place.get("checkpoint_id")
    return Address(
        text,
        _namespace(namespace) if namespace else "",
        _checkpoint_id(checkpoint) if checkpoint else None,
    )


def _no_thread(place: Mapping[Any, Any]) -> InvalidConfigError:
    keys = [key for key in place if key != "thread_id" and not str(key).startswith("__")]
    given = f"; it has {', '.join(map(repr, keys[:4]))}" if keys else ""
    return InvalidConfigError(
        f"config has no thread_id, which a graph with a checkpointer needs{given}",
        do=f"pass config={_EXAMPLE}",
    )


def root_of(config: Config | None, address: Address, host: Host | None) -> Address:
    """Return the root checkpoint at which a run starts whose config addresses a subgraph's.

    A snapshot's config also holds the checkpoints of the runs above, in `checkpoint_map`; the run
    starts at the root's and each subgraph at its own. One that names no checkpoint leads to the
    thread's newest.

    Args:
        address: that of the config.
        host: of the run's saver; None without one.
    Raises:
        InvalidConfigError: the config has a subgraph's checkpoint without those above, or is that
            of a task of LangGraph's, whose checkpoints are in another saver.
    """
    configurable = checked(config).get("configurable") or {}
    if host is not None and LANGGRAPH_TASK in configurable and CURRENT.get(None) is None:
        raise InvalidConfigError(
            "a graph with a checkpointer of its own got the config of a task of LangGraph's, which "
            "addresses a checkpoint of LangGraph's",
            do='pass a thread of its own: {"configurable": {"thread_id": "..."}}',
        )
    places = configurable.get("checkpoint_map") or {}
    if address.checkpoint is None and not places:
        return Address(address.thread_id)
    if "" not in places:
        raise InvalidConfigError(
            f"config addresses the subgraph {address.namespace!r}, but a run starts at the root",
            do="use the config of a snapshot from get_state(config, subgraphs=True), which has the "
            "checkpoints of the runs above; or leave checkpoint_ns out",
        )
    named = {n: (n, _checkpoint_id(checkpoint)) for n, checkpoint in places.items() if n}
    if address.checkpoint is not None:
        named[address.namespace] = (address.namespace, address.checkpoint)
    # Keyed without task ids: the new run's tasks get other ids, but the same node names.
    by_nodes = {stable_namespace(namespace): place for namespace, place in named.items()}
    return Address(address.thread_id, "", _checkpoint_id(places[""]), by_nodes)


def checked(config: object) -> Config:
    """Return a call's config; an empty one for None.

    Raises:
        InvalidConfigError: it is not a dict.
    """
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise InvalidConfigError(
            f"config must be a dict, got {config!r}", do=f"pass config={_EXAMPLE}"
        )
    return config


def gathered(config: object) -> Config:
    """Return a call's config with every key that is not one of `KEYS` moved to `configurable`.

    So `{"thread_id": "1"}` is enough, as in LangGraph. Empty values are dropped.

    Raises:
        InvalidConfigError: it is not a dict, or `configurable` is not.
    """
    given = checked(config)
    if given.keys() <= KEYS:
        return given
    place: Any = given.get("configurable") or {}
    if not isinstance(place, Mapping):
        raise _no_dict(place)
    kept = {key: value for key, value in given.items() if key in KEYS}
    loose = {key: given[key] for key in given if key not in KEYS and not _is_empty(given[key])}
    return {**kept, "configurable": {**place, **loose}}


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, (list, tuple, dict)) and not value)


def _no_dict(place: object) -> InvalidConfigError:
    return InvalidConfigError(
        f'config["configurable"] must be a dict, got {place!r}', do=f"pass config={_EXAMPLE}"
    )


def where_of(filter: object) -> tuple[tuple[str, object], ...]:
    """Return a metadata filter as pairs.

    Raises:
        InvalidConfigError: it is not a dict with string keys.
    """
    if filter is None:
        return ()
    if not isinstance(filter, Mapping) or not all(isinstance(key, str) for key in filter):
        raise InvalidConfigError(
            f"filter must be a dict of metadata, got {filter!r}", do='use e.g. {"source": "loop"}'
        )
    check_texts(filter, "filter")
    return tuple(filter.items())


def limit_of(limit: int | None) -> int | None:
    """Return the most items that a listing may return; None for all.

    Raises:
        InvalidConfigError: it is negative, or not an integer.
    """
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0):
        return limit
    raise InvalidConfigError(
        f"limit must be an integer >= 0 or None, got {limit!r}",
        do="use 0 or more, or None for all",
    )


def before_of(before: Config | str | None) -> bytes | None:
    """Return the checkpoint id in a listing's `before`: a config, or the id as text.

    Raises:
        InvalidConfigError: it is neither.
    """
    if isinstance(before, str):
        return _checkpoint_id(before)
    return address_of(before, needs_thread=False).checkpoint if before else None


def is_thread_id(text: str) -> bool:
    """Whether a thread may have this id."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 0 < size <= THREAD_ID_BYTES_MAX and _CONTROL.search(text) is None


def check_thread_id(given: object, text: str) -> None:
    """Check that a thread may have an id.

    Args:
        given: by the caller.
        text: the same as text.
    Raises:
        InvalidConfigError: it may not.
    """
    if not isinstance(given, (str, int)) and type(given).__name__ != "UUID":
        raise InvalidConfigError(
            f"thread_id must be a string, an integer or a UUID, got {type(given).__name__}",
            do="use a string, an integer or a UUID",
        )
    if not is_thread_id(text):
        raise InvalidConfigError(
            f"thread_id must have 1 to {THREAD_ID_BYTES_MAX} bytes and no control characters, "
            f"got {text[:40]!r}",
            do="use a short printable name, such as a UUID",
        )


def _namespace(given: object) -> str:
    if not isinstance(given, str) or not is_encodable(given) or "\0" in given:
        raise InvalidConfigError(
            f"checkpoint_ns must be text without NUL and lone surrogates, got {str(given)[:40]!r}",
            do="take it from get_state().config; the thread's own namespace is ''",
        )
    return given


def _checkpoint_id(text: object) -> bytes:
    try:
        return as_bytes(str(text))
    except ValueError:
        raise InvalidConfigError(
            f"checkpoint_id must be the id of a checkpoint, got {str(text)[:60]!r}",
            do="take it from get_state().config or get_state_history()",
        ) from None


def durability_of(value: str | Durability | None, default: Durability) -> Durability:
    """Return the durability of a call, or the default.

    Raises:
        InvalidConfigError: the mode is unknown.
    """
    if value is None:
        return default
    try:
        return Durability(value)
    except ValueError:
        modes = [mode.value for mode in Durability]
        raise InvalidConfigError(
            f"unknown durability={value!r}", do=did_you_mean(value, modes)
        ) from None


def modes_of(stream_mode: str | Sequence[str]) -> tuple[str, ...]:
    """Return the stream modes of a call.

    Raises:
        InvalidConfigError: a mode is unknown, or the sequence is empty.
    """
    modes = (stream_mode,) if isinstance(stream_mode, str) else tuple(stream_mode)
    if not modes:
        raise InvalidConfigError(
            "stream_mode must not be an empty list", do=f"use some of {', '.join(STREAM_MODES)}"
        )
    for mode in modes:
        if mode not in STREAM_MODES:
            raise InvalidConfigError(
                f"unknown stream_mode={mode!r}", do=did_you_mean(mode, STREAM_MODES)
            )
    return modes


def keys_of(plan: Plan, names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the output keys of a call; None for the default.

    Raises:
        InvalidConfigError: one of them is not a key of the state.
    """
    if names is None:
        return None
    keys = (names,) if isinstance(names, str) else tuple(names)
    for key in keys:
        if key not in plan.state_keys:
            raise InvalidConfigError(
                f"output_keys contains {key!r}, which is not a key of the state",
                do=did_you_mean(key, plan.state_keys),
            )
    return keys


def policy_of(  # noqa: PLR0917 - one caller, which has them under these names
    plan: Plan,
    config: Config,
    options: CallOptions,
    durability: Durability,
    default_keys: tuple[str, ...],
    modes: Sequence[str] = (),
    *,
    step_timeout: float | timedelta | None = None,
) -> RunPolicy:
    """Return the settings of one run: the call's, else the graph's.

    Args:
        durability: of a call without one.
        default_keys: the output keys of a call without any.
    Raises:
        InvalidConfigError: a number is out of range, an interrupt names an unknown node, or an
            output key is not one of the state's.
    """
    metadata, tags = config.get("metadata") or {}, config.get("tags")
    # Most calls have none of these: only the given ones are checked.
    chosen, keys = options.get("durability"), options.get("output_keys")
    before, after = options.get("interrupt_before"), options.get("interrupt_after")
    if not isinstance(metadata, Mapping):
        raise InvalidConfigError(
            f'config["metadata"] must be a dict, got {metadata!r}', do="pass a dict of JSON values"
        )
    if config.get("callbacks"):
        _check_callbacks(config["callbacks"])
    if metadata:
        check_texts(metadata, 'config["metadata"]')
    limits: dict[str, Any] = {"recursion_limit": default_recursion_limit()}
    for name, default in _LIMITS.items():
        if name in config:
            limits[name] = _count(config, name, default)
    strict = (config.get("configurable") or {}).get(_STRICT)
    return RunPolicy(
        durability=durability if chosen is None else durability_of(chosen, durability),
        step_timeout_s=None if step_timeout is None else seconds("step_timeout", step_timeout),
        interrupt_before=plan.interrupt_before if before is None else _node_names(plan, before),
        interrupt_after=plan.interrupt_after if after is None else _node_names(plan, after),
        modes=frozenset(modes) if modes else _NO_MODES,
        output_keys=default_keys if keys is None else keys_of(plan, keys) or default_keys,
        metadata=_stored(metadata) if metadata else {},
        tags=_tags(tags) if tags else (),
        strict_resume=bool(options.get("strict_resume") or strict),
        **limits,
    )


def sets_nothing(config: Config, options: CallOptions) -> bool:
    """Whether a call says no more about its run than a thread, an input and a durability."""
    place, chosen = config.get("configurable") or {}, options.get("durability")
    return (
        (chosen is None or isinstance(chosen, str))
        and options.keys() <= _DURABILITY
        and config.keys().isdisjoint(_SETTINGS)
        and _STRICT not in place
    )


_NO_MODES: frozenset[str] = frozenset()
_DURABILITY = frozenset(("durability",))

_LIMITS: Mapping[str, int | None] = {
    "recursion_limit": DEFAULT_RECURSION_LIMIT,
    "node_visit_limit": None,
    "nesting_limit": DEFAULT_NESTING_LIMIT,
    "max_concurrency": None,
    "max_unsaved_steps": 16,
}
"""The keys of a config that bound a run, and their defaults."""

KEYS = frozenset(("callbacks", "configurable", "metadata", "run_id", "run_name", "tags", *_LIMITS))
"""The keys of a config; any other one belongs to `configurable`."""

_SETTINGS = frozenset((*_LIMITS, "callbacks", "metadata", "tags"))
_STRICT = "__pregel_strict_resume"
"""LangGraph's key for `strict_resume`."""


def is_recorded_replay(replay: str | None, given: object, stored: bool) -> bool:
    """Whether a call replays the recorded steps instead of running nodes.

    Args:
        given: the call's input; a recorded replay takes None.
        stored: whether the graph has a saver.
    Raises:
        InvalidConfigError: `replay` is unknown, or the call has an input or no checkpointer.
    """
    if replay not in (None, "execute", "recorded"):
        raise InvalidConfigError(
            f'unknown replay={replay!r}; expected "execute" or "recorded"',
            do=did_you_mean(replay, ["execute", "recorded"]),
        )
    if replay != "recorded":
        return False
    if given is not None:
        raise InvalidConfigError(
            f'replay="recorded" takes no input, got {type(given).__name__}',
            do="call it with None and the config of a checkpoint",
        )
    if not stored:
        raise InvalidConfigError(
            'replay="recorded" needs a checkpointer, because it returns recorded steps',
            do="compile(checkpointer=...), and call it with the config of a checkpoint",
        )
    return True


def _check_callbacks(given: Any) -> None:
    """Refuse an object that isn't a handler of callbacks: it would never be called."""
    from actorgraph.runtime.run.callbacks import GraphCallbackHandler

    if BRIDGE.is_manager(given):
        return
    handlers: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    strange = [one for one in handlers if not isinstance(one, GraphCallbackHandler)]
    wrong = next((one for one in strange if not BRIDGE.is_handler(one)), None)
    if not isinstance(given, (list, tuple)) or wrong is not None:
        raise InvalidConfigError(
            f'config["callbacks"] has {shown(given if wrong is None else wrong)}, which no event '
            "would reach",
            do="pass a list of objects of subclasses of LangChain's BaseCallbackHandler or of "
            "GraphCallbackHandler, or a callback manager",
        )


def _tags(tags: Any) -> tuple[str, ...]:
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidConfigError(
            f'config["tags"] must be a list of strings, got {tags!r}', do='pass e.g. ["mine"]'
        )
    return tuple(tags)


def max_concurrency_of(config: Config | None) -> int | None:
    """Return a config's `max_concurrency`; None for no bound.

    Raises:
        InvalidConfigError: it is not a positive integer.
    """
    return _count(checked(config), "max_concurrency", None)


def _count(config: Config, key: str, default: Any) -> Any:
    """Return a positive integer of a config, or its default."""
    value = config.get(key, default)
    if value is default:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidConfigError(f"{key} must be an integer, got {value!r}", do="use 1 or more")
    if value < 1:
        raise InvalidConfigError(
            f"{key} must be >= 1, got {value!r}", do="use 1 or more, or leave it out"
        )
    return value


def _node_names(plan: Plan, names: Sequence[str] | str) -> tuple[str, ...]:
    wanted = tuple(map(plain, (names,) if isinstance(names, str) else names))
    for name in wanted:
        if name == START or (name != "*" and name not in plan.nodes):
            names = [node for node in plan.nodes if node != START]
            raise InvalidConfigError(
                f"Interrupt node `{name}` not found", do=did_you_mean(name, names)
            )
    return wanted


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


ENVIRONMENT = ("ACTORGRAPH_DEFAULT_RECURSION_LIMIT", "LANGGRAPH_DEFAULT_RECURSION_LIMIT")
"""Variables that may set the default recursion limit; the first one that is set wins."""


@cache
def default_recursion_limit() -> int:
    """Return the recursion limit of runs whose config has none; read once per process."""
    return recursion_limit_in(os.environ)


def recursion_limit_in(environment: Mapping[str, str]) -> int:
    """Return the default recursion limit that an environment sets, or the built-in one.

    Raises:
        InvalidConfigError: it is not a positive integer.
    """
    name = next((name for name in ENVIRONMENT if environment.get(name)), None)
    if name is None:
        return DEFAULT_RECURSION_LIMIT
    text = environment[name]
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfigError(
            f"the environment variable {name} must be an integer >= 1, got {text!r}",
            do="set it to 1 or more, or remove it",
        )
    return int(text)


def seconds(name: str, value: Any) -> float | None:
    """Return a duration in seconds, from a number or a timedelta; None for no limit.

    Args:
        name: the argument, for the error.
    Raises:
        InvalidConfigError: it is neither, not above 0, or above a hundred years.
    """
    if value is None:
        return None
    found = seconds_of(value)
    if found is None:
        raise InvalidConfigError(
            f"{name} must be a positive number of seconds or a timedelta, got {value!r}",
            do="use a number above 0 or a timedelta, at most a hundred years, or leave it out",
        )
    return found


def _stored(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return stored_metadata(metadata)
    except RecursionError as error:
        raise InvalidConfigError(
            f'config["metadata"] is nested too deeply to be stored: {shown(metadata)}',
            do="pass shallow lists and dicts",
        ) from error
