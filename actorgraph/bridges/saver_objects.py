"""Objects for savers of LangGraph's interface, and LangGraph's serializers."""

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

from actorgraph.bridges.langgraph_values import langgraph_module, layer_module
from actorgraph.codec import Codec
from actorgraph.codec.serializers import EncryptedSerializer, codec_of, refused_serializer
from actorgraph.codec.stored_types import extension_of
from actorgraph.errors import InvalidConfigError
from actorgraph.values.commands import Interrupt, Send
from actorgraph.values.policies import TimeoutPolicy

_TYPES = "langgraph.types"
_SERDE = "langgraph.checkpoint.serde"


def adapt_serializer(serde: Any, compress_above: int | None) -> Any:
    """Replace LangGraph's own serializers by codecs; anything else is returned as it is.

    Raises:
        InvalidConfigError: it pickles, or has another setting that no codec has.
    """
    kind = type(serde)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if name == f"{_SERDE}.encrypted:EncryptedSerializer":
        return EncryptedSerializer(serde.cipher, codec_of(None, serde.serde))
    if name != f"{_SERDE}.jsonplus:JsonPlusSerializer":
        return serde
    allowed = getattr(serde, "_allowed_msgpack_modules", True)
    others = ("_allowed_json_modules", "_custom_unpack_ext_hook")
    if serde.pickle_fallback or any(getattr(serde, name, None) for name in others):
        raise refused_serializer()
    types = _imported(allowed) if isinstance(allowed, set) else ()
    return Codec(types, compress_above=compress_above)


def _imported(names: Iterable[Any]) -> list[type]:
    """Return the classes of an allow-list of (module, name); those of libraries are known anyway.

    Raises:
        InvalidConfigError: a class isn't imported.
    """
    found: list[type] = []
    for module, name in (pair[:2] for pair in names):
        kind = getattr(sys.modules.get(module), name, None)
        if not isinstance(kind, type):
            raise InvalidConfigError(
                f"the serializer allows {module}.{name}, which isn't imported",
                do=f"import {module} first, or pass codec=Codec(types=[...]) in place of serde=",
            )
        if extension_of(kind) is not None:
            found.append(kind)
    return found


def _types() -> Any:
    """LangGraph's module of these classes; None where it isn't installed, or is the layer.

    Its savers come with a distribution that doesn't import it.
    """
    types = langgraph_module(_TYPES)
    if types is None and langgraph_module("langgraph.checkpoint.base") is not None:
        with suppress(ImportError):
            return import_module(_TYPES)
    return types


def export(item: Any, inner: Callable[[Any], Any]) -> Any:
    """Make LangGraph's Send, Interrupt or Overwrite of ours.

    Args:
        inner: converts the value in it.
    Returns: the item itself where LangGraph isn't installed.
    """
    types = _types()
    if types is None:
        return item
    if type(item) is Send:
        limit = TimeoutPolicy.coerce(item.timeout)
        if limit is None:
            return types.Send(item.node, inner(item.arg))
        made = types.TimeoutPolicy(
            run_timeout=limit.run_timeout,
            idle_timeout=limit.idle_timeout,
            refresh_on=limit.refresh_on,
        )
        return types.Send(item.node, inner(item.arg), timeout=made)
    if type(item) is Interrupt:
        schema = item.response_schema
        more = {} if schema is None else {"response_schema": schema}
        return types.Interrupt(value=inner(item.value), id=item.id, **more)
    return types.Overwrite(value=inner(item.value))


def default_serializer() -> Any | None:
    """Over `actorgraph.compat`, return a serializer that reads LangGraph's; None otherwise."""
    module = layer_module("langgraph.checkpoint.base")
    return None if module is None else module.JsonPlusSerializer()
