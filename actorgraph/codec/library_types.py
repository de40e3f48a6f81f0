"""Classes of libraries that are always known: secrets, documents, items of stores, LangGraph's own.

They are the ones that LangGraph's serializer reads without a declaration. Nothing is imported: a
stored object is an error in a program that hasn't imported its library.
"""

import sys
from typing import Any

from actorgraph.bridging import BRIDGE
from actorgraph.messages.kinds import KINDS

_NAMES = frozenset(
    {
        *(f"pydantic.types:{name}" for name in ("SecretStr", "SecretBytes")),
        *(f"pydantic.v1.types:{name}" for name in ("SecretStr", "SecretBytes")),
        *(f"actorgraph.stores.operations:{name}" for name in ("Item", "SearchItem", "GetOp")),
        "actorgraph.values.policies:TimeoutPolicy",
        *(f"actorgraph.values.state_snapshot:{name}" for name in ("StateSnapshot", "PregelTask")),
    }
)
_SLOTTED = frozenset({"Item", "SearchItem", "Send"})

_OURS = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in KINDS}


def _is_known(name: str) -> bool:
    return name in _NAMES or name in BRIDGE.stored_types


def _is_message(name: str) -> bool:
    """Whether a name is that of another library's class of messages."""
    return bool(BRIDGE.message_types) and name.startswith(BRIDGE.message_types)


def library_type(name: str) -> type | None:
    """Return the class with this stored name; None if it is not always known, or not imported."""
    if not _is_known(name):
        return message_type(name)
    module, _, kind_name = name.partition(":")
    kind = getattr(sys.modules.get(module), kind_name, None)
    return kind if isinstance(kind, type) and _is_named(kind, name) else None


def library_of(name: str) -> str | None:
    """Return the module to import for a stored name that is always known; None for others."""
    module = name.partition(":")[0]
    return module if _is_known(name) or _is_message(name) else None


def message_type(name: str) -> type | None:
    """Return the message class with this stored name; None if unknown."""
    if not _is_message(name):
        return _OURS.get(name)
    module = BRIDGE.messages()
    kind = getattr(module, name.partition(":")[2], None) if module is not None else None
    if module is None or not isinstance(kind, type) or not issubclass(kind, module.BaseMessage):
        return None
    return kind if _is_named(kind, name) else None


def _is_named(kind: type, name: str) -> bool:
    return f"{kind.__module__}:{kind.__qualname__}" == name


def is_slotted(kind: type) -> bool:
    """Whether a class is one of those whose objects are stored slot by slot."""
    if kind.__name__ not in _SLOTTED:
        return False
    name = f"{kind.__module__}:{kind.__qualname__}"
    return _is_known(name) and library_type(name) is kind


def pack_slots(value: Any) -> dict[str, Any]:
    """Return the values of an object's slots."""
    return {name: getattr(value, name) for name in _slots(type(value))}


def build_slotted(kind: Any, data: dict[str, Any]) -> Any:
    """Build an object of its slots, without calling its constructor.

    Raises:
        ValueError: it is not a class that is stored so, or a slot is missing or unknown.
    """
    names = _slots(kind) if is_slotted(kind) else []
    if sorted(data) != sorted(names):
        msg = f"{kind.__name__} doesn't have the stored attributes {sorted(data)}"
        raise ValueError(msg)
    made = object.__new__(kind)
    for name in names:
        object.__setattr__(made, name, data[name])
    return made


def _slots(kind: type) -> list[str]:
    return [name for base in kind.__mro__ for name in vars(base).get("__slots__", ())]


def is_secret(kind: type) -> bool:
    """Whether a class is pydantic's SecretStr or SecretBytes, or derived from one of them."""
    return any(
        f"{base.__module__}:{base.__qualname__}" in _NAMES and base.__name__.startswith("Secret")
        for base in kind.__mro__
    )


def pack_secret(value: Any) -> Any:
    """Return a secret's text or bytes."""
    return value.get_secret_value()


def build_secret(kind: Any, data: Any) -> Any:
    """Build a secret of its text or bytes.

    Raises:
        ValueError: it is not a class of secrets, or the data is neither.
    """
    if not is_secret(kind) or type(data) not in (str, bytes):
        msg = f"{kind.__name__} can't be made of {type(data).__name__}"
        raise ValueError(msg)
    return kind(data)


def is_old_model(kind: Any) -> bool:
    """Whether a class is a model of pydantic 1, as in `pydantic.v1`."""
    return (
        hasattr(kind, "__fields__") and hasattr(kind, "__config__") and hasattr(kind, "construct")
    )


def pack_old_model(value: Any) -> list[Any]:
    """Return fields, names of the fields set, and private attributes."""
    state = value.__getstate__()
    fields, private = state["__dict__"], state["__private_attribute_values__"]
    return [fields, sorted(state["__fields_set__"]), private]


def build_old_model(kind: Any, data: list[Any]) -> Any:
    """Build a model of pydantic 1 without running its validators.

    Raises:
        ValueError: it has a field that the class doesn't have any more, or lacks a new one.
    """
    fields, given, private = data
    known = kind.__fields__
    new = next((n for n, field in known.items() if n not in fields and field.required), None)
    if new is not None:
        msg = f"{kind.__module__}:{kind.__qualname__} has no stored value for its field {new!r}"
        raise ValueError(msg)
    gone = sorted(fields.keys() - known.keys())
    if gone and str(getattr(kind.__config__.extra, "value", "")) != "allow":
        msg = f"{kind.__module__}:{kind.__qualname__} has no field {gone[0]!r} any more"
        raise ValueError(msg)
    made = kind.__new__(kind)
    defaults = {n: f.get_default() for n, f in known.items() if n not in fields}
    object.__setattr__(made, "__dict__", {**fields, **defaults})
    object.__setattr__(made, "__fields_set__", set(given))
    made._init_private_attributes()  # noqa: SLF001 - pydantic's way to set their defaults
    for name, held in private.items():
        object.__setattr__(made, name, held)
    return made
