"""The `config` dict of a call, checked and taken apart before anything runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from actorgraph.api.limits import default_recursion_limit
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.texts import is_unicode
from actorgraph.plan.graph import Plan
from actorgraph.runtime.runs import Address
from actorgraph.superstep.nesting import stable_namespace
from actorgraph.values.constants import DEFAULT_NESTING_LIMIT, START
from actorgraph.values.ids import as_bytes
from actorgraph.values.metadata import check_texts, stored_metadata
from actorgraph.values.policies import STREAM_MODES, Durability, RunPolicy

Config = Mapping[str, Any]
_EXAMPLE = '{"configurable": {"thread_id": "..."}}'
THREAD_ID_BYTES_MAX = 255


def address_of(config: Config | None, *, needs_thread: bool) -> Address:
    """The thread, namespace and checkpoint that a config addresses.

    Args:
        needs_thread: whether a thread id must be there.
    Raises:
        InvalidConfigError: it isn't, or a part can't be used.
    """
    place = checked(config).get("configurable") or {}
    if not isinstance(place, Mapping):
        raise InvalidConfigError(
            f'config["configurable"] is {place!r}, not a dict', do=f"pass config={_EXAMPLE}"
        )
    thread_id = place.get("thread_id")
    if thread_id is None:
        if needs_thread:
            raise InvalidConfigError(
                "the graph has a checkpointer and the config has no thread_id",
                do=f"pass config={_EXAMPLE}",
            )
        return Address()
    text = thread_id if isinstance(thread_id, str) else str(thread_id)
    _check_thread_id(thread_id, text)
    checkpoint = place.get("checkpoint_id")
    return Address(
        text,
        _namespace(place.get("checkpoint_ns")),
        _checkpoint_id(checkpoint) if checkpoint else None,
    )


def start_of(config: Config | None, *, needs_thread: bool) -> Address:
    """Where a run of its own begins: as `address_of`, but at a root checkpoint.

    A config of a nested graph's checkpoint names those of the runs above it too.

    Raises:
        InvalidConfigError: it names a nested graph, and not the checkpoints above it.
    """
    address = address_of(config, needs_thread=needs_thread)
    if not address.namespace:
        return address
    places = (checked(config).get("configurable") or {}).get("checkpoint_map") or {}
    if "" not in places:
        raise InvalidConfigError(
            f"the config addresses the nested graph {address.namespace!r}, in which no run begins",
            do="take the config of a snapshot of get_state(config, subgraphs=True), which has the "
            "checkpoints of the runs above; or leave checkpoint_ns out",
        )
    named = {n: (n, _checkpoint_id(checkpoint)) for n, checkpoint in places.items() if n}
    if address.checkpoint is not None:
        named[address.namespace] = (address.namespace, address.checkpoint)
    by_nodes = {stable_namespace(namespace): place for namespace, place in named.items()}
    return Address(address.thread_id, "", _checkpoint_id(places[""]), by_nodes)


def checked(config: object) -> Config:
    """A call's config; an empty one for None.

    Raises:
        InvalidConfigError: it is no dict.
    """
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise InvalidConfigError(f"config is {config!r}, not a dict", do=f"pass config={_EXAMPLE}")
    return config


def where_of(filter: object) -> tuple[tuple[str, object], ...]:
    """A metadata filter as pairs.

    Raises:
        InvalidConfigError: it is not a dict with text keys.
    """
    if filter is None:
        return ()
    if not isinstance(filter, Mapping) or not all(isinstance(key, str) for key in filter):
        raise InvalidConfigError(
            f"filter is {filter!r}, not a dict of metadata", do='use e.g. {"source": "loop"}'
        )
    check_texts(filter, "filter")
    return tuple(filter.items())


def limit_of(limit: int | None) -> int | None:
    """How many a listing may give at most; None for all.

    Raises:
        InvalidConfigError: it is no whole number, or a negative one.
    """
    if limit is None or (isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0):
        return limit
    raise InvalidConfigError(
        f"limit={limit!r} is no number of checkpoints", do="use 0 or more, or None for all"
    )


def bound_of(before: Config | str | None) -> bytes | None:
    """The checkpoint that a listing's `before` names: a config, or the id as text.

    Raises:
        InvalidConfigError: it is neither.
    """
    if isinstance(before, str):
        return _checkpoint_id(before)
    return address_of(before, needs_thread=False).checkpoint if before else None


def _check_thread_id(given: object, text: str) -> None:
    if not isinstance(given, (str, int)) and type(given).__name__ != "UUID":
        raise InvalidConfigError(
            f"thread_id is a {type(given).__name__}", do="use a string, an integer or a UUID"
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = THREAD_ID_BYTES_MAX + 1
    if not 0 < size <= THREAD_ID_BYTES_MAX or any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise InvalidConfigError(
            f"thread_id {text[:40]!r} is empty, longer than {THREAD_ID_BYTES_MAX} bytes, or has "
            "control characters",
            do="use a short printable name, such as a UUID",
        )


def _namespace(given: object) -> str:
    if not given:
        return ""
    if not isinstance(given, str) or not is_unicode(given) or "\0" in given:
        raise InvalidConfigError(
            f"checkpoint_ns {str(given)[:40]!r} is no text that can be stored",
            do="take it from get_state().config; the thread's own namespace is ''",
        )
    return given


def _checkpoint_id(text: object) -> bytes:
    try:
        return as_bytes(str(text))
    except ValueError:
        raise InvalidConfigError(
            f"checkpoint_id {str(text)[:60]!r} is not the id of a checkpoint",
            do="take it from get_state().config or get_state_history()",
        ) from None


def durability_of(value: str | Durability | None, default: Durability) -> Durability:
    """The mode that a call asks for, or the default.

    Raises:
        InvalidConfigError: there is no such mode.
    """
    if value is None:
        return default
    try:
        return Durability(value)
    except ValueError:
        modes = [mode.value for mode in Durability]
        raise InvalidConfigError(
            f"durability={value!r} is no durability mode", do=did_you_mean(value, modes)
        ) from None


def modes_of(stream_mode: str | Sequence[str]) -> tuple[str, ...]:
    """The stream modes that a call asks for.

    Raises:
        InvalidConfigError: one of them doesn't exist.
    """
    modes = (stream_mode,) if isinstance(stream_mode, str) else tuple(stream_mode)
    if not modes:
        raise InvalidConfigError(
            "stream_mode is an empty list", do=f"name some of {', '.join(STREAM_MODES)}"
        )
    for mode in modes:
        if mode not in STREAM_MODES:
            raise InvalidConfigError(
                f"stream_mode={mode!r} is no stream mode", do=did_you_mean(mode, STREAM_MODES)
            )
    return modes


def keys_of(plan: Plan, names: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The output keys that a call asks for.

    Raises:
        InvalidConfigError: one of them is no key of the state.
    """
    if names is None:
        return None
    keys = (names,) if isinstance(names, str) else tuple(names)
    for key in keys:
        if key not in plan.state_keys:
            raise InvalidConfigError(
                f"output_keys has {key!r}, which is no key of the state",
                do=did_you_mean(key, plan.state_keys),
            )
    return keys


def policy_of(
    plan: Plan,
    config: Config | None,
    *,
    durability: Durability,
    modes: Sequence[str] = (),
    output_keys: tuple[str, ...] | None = None,
    interrupt_before: Sequence[str] | str | None = None,
    interrupt_after: Sequence[str] | str | None = None,
    step_timeout_s: float | None = None,
    strict_resume: bool = False,
) -> RunPolicy:
    """The settings of one run: the call's, else the graph's.

    Raises:
        InvalidConfigError: a number is out of range, or an interrupt names no node.
    """
    config = checked(config)
    metadata = config.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise InvalidConfigError(
            f'config["metadata"] is {metadata!r}, not a dict', do="pass a dict of JSON values"
        )
    if metadata:
        check_texts(metadata, 'config["metadata"]')
    return RunPolicy(
        durability=durability,
        recursion_limit=_count(config, "recursion_limit", default_recursion_limit()),
        node_visit_limit=_count(config, "node_visit_limit", None),
        nesting_limit=_count(config, "nesting_limit", DEFAULT_NESTING_LIMIT),
        step_timeout_s=step_timeout_s,
        max_concurrency=_count(config, "max_concurrency", None),
        max_unsaved_steps=_count(config, "max_unsaved_steps", 16),
        interrupt_before=_nodes(plan, interrupt_before, plan.interrupt_before),
        interrupt_after=_nodes(plan, interrupt_after, plan.interrupt_after),
        modes=frozenset(modes),
        output_keys=output_keys,
        metadata=stored_metadata(metadata),
        tags=_tags(config),
        strict_resume=strict_resume or _says_strict(config),
    )


def is_recorded(replay: str | None, given: object, stored: bool) -> bool:
    """Whether a call asks to be told what was recorded.

    Raises:
        InvalidConfigError: there is no such replay, or it can't be one.
    """
    if replay not in (None, "execute", "recorded"):
        raise InvalidConfigError(
            f"replay={replay!r} is no kind of replay",
            do=did_you_mean(replay, ["execute", "recorded"]),
        )
    if replay != "recorded":
        return False
    if given is not None or not stored:
        raise InvalidConfigError(
            'replay="recorded" takes no input and needs a checkpointer: it tells what is stored',
            do="call it with None and the config of a checkpoint",
        )
    return True


def _says_strict(config: Config) -> bool:
    """As LangGraph's programs say it."""
    return bool((config.get("configurable") or {}).get("__pregel_strict_resume"))


def _tags(config: Config) -> tuple[str, ...]:
    tags = config.get("tags") or ()
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidConfigError(f'config["tags"] is {tags!r}, not a list of texts', do='["mine"]')
    return tuple(tags)


def max_concurrency_of(config: Config | None) -> int | None:
    """How many at once a config allows; None for no bound.

    Raises:
        InvalidConfigError: it is no positive number.
    """
    return _count(checked(config), "max_concurrency", None)


def _count(config: Config, key: str, default: Any) -> Any:
    """A positive number of a config, or its default."""
    value = config.get(key, default)
    if value is default:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidConfigError(f"{key}={value!r} is not a whole number", do="use 1 or more")
    if value < 1:
        raise InvalidConfigError(
            f"{key}={value!r} is less than 1", do="use 1 or more, or leave it out"
        )
    return value


def _nodes(
    plan: Plan, names: Sequence[str] | str | None, default: tuple[str, ...]
) -> tuple[str, ...]:
    if names is None:
        return default
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name == START or (name != "*" and name not in plan.nodes):
            names = [node for node in plan.nodes if node != START]
            raise InvalidConfigError(
                f"Interrupt node `{name}` not found", do=did_you_mean(name, names)
            )
    return wanted
